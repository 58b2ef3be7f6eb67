//! Nodes that die, and those that take their place.

use crate::ground::scenarios;

scenarios![];

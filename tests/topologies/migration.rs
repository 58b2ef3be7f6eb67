//! Slots that move while they are used.

use crate::ground::scenarios;

scenarios![];

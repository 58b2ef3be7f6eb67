//! How clients connect: certificates as text and changing files, RESP2 servers, and changing roles.

mod certificates;
mod replicated;
mod resp2;

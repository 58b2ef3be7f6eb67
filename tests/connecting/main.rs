//! How clients connect: inline and changing certificates, RESP2 servers, and changing roles.

mod certificates;
mod replicated;
mod resp2;

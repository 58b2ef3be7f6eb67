//! How clients connect: certificates that are inline or change, servers of the older protocol, and
//! roles that move.

mod certificates;
mod replicated;
mod resp2;

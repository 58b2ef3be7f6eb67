mod adders;
mod adder_totals;

mod gcra;
mod rates;

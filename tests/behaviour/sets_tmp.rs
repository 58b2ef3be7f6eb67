mod multimaps;
mod sets;
mod sets_scored;
mod sets_sorted;

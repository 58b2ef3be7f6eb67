#[path = "behaviour/reliable.rs"]
mod reliable;
#[path = "behaviour/reliable_losses.rs"]
mod reliable_losses;
#[path = "behaviour/reliable_model.rs"]
mod reliable_model;

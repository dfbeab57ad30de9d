//! What the library's own tests ask of parts of the probe that no one else sees. No promise is made for it.

use super::black_box::{Input, Interface};
use super::edges::Edges;
use super::fit::{parameter_options, structures};
use crate::accumulate::Recipe;

/// Inputs at the edges of a model, on which [`fit`](fn@super::fit) judges models like it.
pub fn edges(recipe: &Recipe, interface: &Interface, seed: u64, count: usize) -> Vec<Input> {
    Edges::new(recipe, interface, seed).batch(count)
}

/// Every parameter of a model, with the model at every value that [`fit`](fn@super::fit) tries for it.
pub fn neighbours(recipe: &Recipe, interface: &Interface) -> Vec<(&'static str, Vec<Recipe>)> {
    parameter_options(recipe, interface, &structures(interface.k))
}

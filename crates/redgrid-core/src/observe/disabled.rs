//! Records nothing: for builds without the feature `metrics`.

use std::time::Duration;

use super::Metric;

#[inline(always)]
pub(super) fn add<const N: usize>(_: &'static Metric, _: [&'static str; N]) {}

#[inline(always)]
pub(super) fn add_many<const N: usize>(_: &'static Metric, _: [&'static str; N], _: u64) {}

#[inline(always)]
pub(super) fn gauge<const N: usize>(_: &'static Metric, _: [&'static str; N], _: f64) {}

#[inline(always)]
pub(super) fn record<const N: usize>(_: &'static Metric, _: [&'static str; N], _: Duration) {}

#[inline(always)]
pub(super) fn begin(_: &'static Metric, _: &'static str) {}

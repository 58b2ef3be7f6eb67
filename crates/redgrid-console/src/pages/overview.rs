//! The overview: what looks wrong, the servers, and numbers of locks and clients.

use std::collections::BTreeMap;

use maud::{Markup, html};
use redgrid_core::{NodeHealth, NodePart};

use super::locks::why_not_searched;
use super::{Content, trouble};
use crate::holder_state::State;
use crate::lints::{self, Findings};
use crate::server_info::ServerInfo;
use crate::snapshot::Snapshot;
use crate::text::{bytes, clock, count, encoded, name, number, visible};
use crate::view::{View, row_id};

/// Programs that are listed.
const MOST_PROGRAMS: usize = 50;

pub(super) fn frame(view: &View) -> Markup {
    html! {
        h1 { "Overview" }
        section aria-labelledby="h-lints" {
            h2 #h-lints { "Findings" }
            div #lints { (view.get("lints")) }
        }
        section aria-labelledby="h-numbers" {
            h2 #h-numbers { "Locks and clients" }
            div #numbers { (view.get("numbers")) }
        }
        section aria-labelledby="h-nodes" {
            h2 #h-nodes { "Servers" }
            div #servers-trouble { (view.get("servers-trouble")) }
            div.scroll tabindex="0" role="region" aria-label="Table of servers" {
                table {
                    caption { "Each node of the deployment, as it answers now" }
                    thead { tr {
                        th scope="col" { "Node" }
                        th scope="col" { "Role" }
                        th scope="col" { "State" }
                        th.n scope="col" { "Round trip" }
                        th scope="col" { "Program" }
                        th.n scope="col" { "Keys" }
                        th.n scope="col" { "Memory" }
                        th.n scope="col" { "Connections" }
                        th.n scope="col" { "Commands/s" }
                        th.n scope="col" { "Clock" }
                    } }
                    tbody #nodes { (view.rows("nodes")) }
                }
            }
        }
        section aria-labelledby="h-programs" {
            h2 #h-programs { "Programs" }
            div.scroll tabindex="0" role="region" aria-label="Table of programs" {
                table {
                    caption { "Connected clients, by program and version" }
                    thead { tr {
                        th scope="col" { "Program" }
                        th scope="col" { "Version of redgrid" }
                        th.n scope="col" { "Clients" }
                        th.n scope="col" { "Holds" }
                        th.n scope="col" { "Waiting tasks" }
                    } }
                    tbody #programs { (view.rows("programs")) }
                }
            }
        }
    }
}

pub(super) fn view(content: &Content<'_>, view: &mut View) -> Vec<String> {
    let snapshot = content.snapshot;
    let known = snapshot.findings.get_or_init(|| lints::findings(snapshot, content.now));
    view.part("lints", findings(known));
    view.part("numbers", numbers(snapshot));
    view.part("servers-trouble", trouble(&snapshot.servers, "INFO of the servers"));
    nodes(snapshot, view);
    programs(snapshot, view);
    Vec::new()
}

/// Shows what looks wrong, and what could not be checked: that is not nothing.
fn findings(known: &Findings) -> Markup {
    let Findings { lints, unchecked, is_reading } = known;
    html! {
        @if *is_reading {
            p.hint { "The servers and the clients are being read." @if lints.is_empty() { " Nothing looks wrong so far." } }
        } @else if lints.is_empty() && unchecked.is_empty() {
            p.hint { "Nothing looks wrong." }
        } @else if lints.is_empty() {
            p.hint { "Nothing looks wrong in what was checked." }
        }
        @if !lints.is_empty() {
            ul.lints {
                @for lint in lints {
                    li {
                        strong { (lint.title) }
                        p { (lint.advice) }
                        p {
                            @for (place, one) in lint.names.iter().enumerate() {
                                @if place > 0 { ", " }
                                @if lint.are_locks {
                                    a href={ "lock?name=" (encoded(one)) } { (name(one)) }
                                } @else {
                                    (name(one))
                                }
                            }
                        }
                    }
                }
            }
        }
        @if !unchecked.is_empty() {
            p.hint { "Not checked: " (visible(&unchecked.join("; "))) "." }
        }
    }
}

fn numbers(snapshot: &Snapshot) -> Markup {
    let mut states: BTreeMap<State, u64> = BTreeMap::new();
    for (state, count) in snapshot.locks.iter().flat_map(|row| &row.states) {
        *states.entry(*state).or_default() += count;
    }
    let waiting: u64 = snapshot.locks.iter().map(|row| row.waiting_tasks).sum();
    let is_searched = snapshot.sweep.completed.is_some() && snapshot.sweep.trouble.is_none();
    let clients = snapshot.living.get().map(|living| (living.clients.len(), living.is_complete));
    html! {
        dl.numbers {
            div {
                dt { "Locks" }
                dd {
                    @if is_searched || !snapshot.locks.is_empty() {
                        a href="locks" { (number(snapshot.locks.len() as u64)) }
                        @if !is_searched || snapshot.sweep.is_cut || snapshot.are_locks_cut { " or more" }
                    } @else { "not known" }
                }
            }
            @for (state, n) in &states {
                div { dt { "Holders, " (state.label()) } dd { a href={ "locks?state=" (state.id()) } { (number(*n)) } } }
            }
            div { dt { "Waiting tasks" } dd { a href="contention" { (number(waiting)) } } }
            div {
                dt { "Clients" }
                dd {
                    @match clients {
                        Some((n, is_complete)) => { a href="clients" { (number(n as u64)) } @if !is_complete { " or more" } }
                        None => { "not known" }
                    }
                }
            }
        }
        (trouble(&snapshot.living, "the list of clients"))
        (trouble(&snapshot.questions, "the reports of the clients"))
        @if let Some((why, since)) = &snapshot.sweep.trouble {
            p.fault { "Could not search for locks since " (clock(*since)) " UTC: " (visible(why)) "." }
        }
        @if snapshot.sweep.is_too_large {
            p.hint { (why_not_searched(snapshot)) ". Only locks that processes report are counted." }
        }
    }
}

fn nodes(snapshot: &Snapshot, view: &mut View) {
    view.table("nodes");
    let Some(health) = snapshot.health.get() else { return };
    let servers = snapshot.servers.get();
    for node in &health.nodes {
        let id = node.node.to_string();
        let info = servers.and_then(|servers| servers.iter().find(|server| server.node == id));
        let row = row_id(&id);
        view.row("nodes", row.clone(), node_row(&row, node, info));
    }
}

fn node_row(row: &str, node: &NodeHealth, info: Option<&ServerInfo>) -> Markup {
    let role = if node.part == NodePart::Primary { "primary" } else { "replica" };
    let cell = |value: Option<u64>| value.map_or_else(|| "–".to_owned(), number);
    html! {
        tr id=(row) {
            th scope="row" { (node.node) }
            td { (role) @if let Some(n) = info.and_then(|info| info.replicas).filter(|n| *n > 0) {
                " of " (count(usize::try_from(n).unwrap_or(usize::MAX), "replica"))
            } }
            td {
                @if node.is_well() {
                    span.state.alive { "answers" }
                } @else {
                    span.state.gone { "away" }
                    @if let Some(trouble) = &node.trouble { " " (visible(trouble)) }
                }
                @if node.is_behind { " " span.state.silent { "behind" } }
                @if node.subscribed < node.channels {
                    " " span.state.silent { (node.channels - node.subscribed) " not subscribed" }
                }
            }
            td.n { (node.round_trip.map_or_else(|| "–".to_owned(), round_trip)) }
            td { (info.map_or("–", |info| &info.program)) }
            td.n { (cell(info.map(|info| info.keys))) }
            td.n {
                (info.and_then(|info| info.memory).map_or_else(|| "–".to_owned(), bytes))
                @if let Some(limit) = info.and_then(|info| info.max_memory) { " of " (bytes(limit)) }
            }
            td.n { (cell(info.and_then(|info| info.clients))) }
            td.n { (cell(info.and_then(|info| info.commands_per_s))) }
            td.n { (node.clock_offset_micros.map_or_else(|| "–".to_owned(), clock_offset)) }
        }
    }
}

/// Rounds a round trip, so that the page does not change with every ping.
fn round_trip(time: std::time::Duration) -> String {
    let ms = time.as_millis();
    if ms < 1 { "< 1 ms".to_owned() } else { format!("{ms} ms") }
}

/// Shows the offset of a clock only if it matters: from 100 ms on.
fn clock_offset(micros: i64) -> String {
    let ms = micros / 1_000;
    match ms.abs() {
        0..100 => "in step".to_owned(),
        ms_abs if ms > 0 => format!("{ms_abs} ms ahead"),
        ms_abs => format!("{ms_abs} ms behind"),
    }
}

fn programs(snapshot: &Snapshot, view: &mut View) {
    view.table("programs");
    let mut programs: BTreeMap<(String, String), (u64, u64, u64)> = BTreeMap::new();
    for (_, process) in snapshot.connected() {
        let key = process.report().map_or_else(
            || ("not reported".to_owned(), String::new()),
            |report| {
                let program = if report.program.is_empty() { &report.client_name } else { &report.program };
                (program.clone(), report.version.clone())
            },
        );
        let (holds, waiting) = process.report().map_or((0, 0), |report| (report.holds, report.waiting));
        let sums = programs.entry(key).or_default();
        *sums = (sums.0 + 1, sums.1.saturating_add(holds), sums.2.saturating_add(waiting));
    }
    for ((program, version), (clients, holds, waiting)) in programs.into_iter().take(MOST_PROGRAMS) {
        let row = row_id(&format!("{program}\n{version}"));
        let html = html! {
            tr id=(row) {
                th scope="row" { (name(&program)) }
                td { (name(&version)) }
                td.n { (number(clients)) }
                td.n { (number(holds)) }
                td.n { (number(waiting)) }
            }
        };
        view.row("programs", row, html);
    }
}

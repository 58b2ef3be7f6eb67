//! The checks of the servers' settings.

use maud::{Markup, html};
use redgrid_inspect::{Finding, Level};

use super::{Content, trouble};
use crate::console::App;
use crate::text::{ago, visible};
use crate::view::{View, row_id};

pub(super) fn frame(app: &App, view: &View) -> Markup {
    html! {
        h1 { "Doctor" }
        p.hint {
            "What the settings of the servers mean for locks, and what to change. The checks only read; " code { "redgrid doctor" }
            " also checks the permissions inside scripts."
        }
        @if app.has_doctor {
            div #doctor { (view.get("doctor")) }
            div.scroll tabindex="0" role="region" aria-label="Findings" {
                table {
                    caption { "Findings, the most urgent first" }
                    thead { tr {
                        th scope="col" { "Level" }
                        th scope="col" { "Check" }
                        th scope="col" { "Node" }
                        th scope="col" { "Meaning" }
                    } }
                    tbody #findings { (view.rows("findings")) }
                }
            }
        } @else {
            p { "The application has not given its configuration to the console (" code { "Console::config" } "), so the \
                 settings cannot be compared with it. Use the command " code { "redgrid doctor" } " instead." }
        }
    }
}

pub(super) fn view(content: &Content<'_>, view: &mut View) -> Vec<String> {
    let doctor = &content.snapshot.doctor;
    view.part(
        "doctor",
        html! {
            (trouble(doctor, "the settings"))
            p {
                @if content.snapshot.is_doctor_running {
                    "The servers are being checked."
                } @else if let (Some(report), Some(at)) = (doctor.get(), doctor.read_at()) {
                    "Checked " (ago(at)) ": " (report.topology) " with " (report.nodes.join(", ")) ". "
                    a href="doctor?again=1" { "Check again" } " (at most once a minute)"
                } @else if doctor.trouble.is_some() {
                    a href="doctor?again=1" { "Check again" }
                } @else {
                    "The checks start."
                }
            }
        },
    );
    view.table("findings");
    let Some(report) = doctor.get() else { return Vec::new() };
    let mut findings: Vec<&Finding> = report.findings.iter().collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    for (place, finding) in findings.into_iter().enumerate() {
        let (class, level) = match finding.level {
            Level::Ok => ("alive", "ok"),
            Level::Warn => ("silent", "warn"),
            _ => ("gone", "fail"),
        };
        let node = finding.node.as_deref().unwrap_or("all");
        let id = row_id(&format!("{place}:{node}:{}", finding.check));
        let html = html! {
            tr id=(id) {
                td { span class={ "state " (class) } { (level) } }
                th scope="row" { (finding.check) }
                td.w { (visible(node)) }
                td.text { (visible(&finding.message)) }
            }
        };
        view.row("findings", id, html);
    }
    Vec::new()
}

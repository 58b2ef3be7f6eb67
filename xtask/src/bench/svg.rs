//! Bar charts as SVG. Equal charts give equal text, byte for byte.

use std::fmt::Write as _;

/// A chart of bars with their values.
#[derive(Debug)]
pub(super) struct Chart<'a> {
    pub(super) title: &'a str,
    /// A line below the title.
    pub(super) note: &'a str,
    /// The last line.
    pub(super) footer: &'a str,
    pub(super) scale: Scale,
    pub(super) panels: Vec<Panel>,
}

/// The scale of the bars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    /// All panels share a scale, and an axis below them. They form one column.
    Shared,
    /// Each panel has a scale of its own. The panels form two columns.
    Own,
}

/// Bars below a heading.
#[derive(Debug)]
pub(super) struct Panel {
    pub(super) title: &'static str,
    pub(super) bars: Vec<Bar>,
}

#[derive(Debug)]
pub(super) struct Bar {
    pub(super) label: String,
    pub(super) value: f64,
    /// The value as text, beside the bar.
    pub(super) shown: String,
    pub(super) color: Color,
}

/// The colour of a bar, in the light and in the dark style.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Color {
    Ours,
    OursLighter,
    Other,
}

// Lengths in pixels.
const WIDTH: f64 = 720.0;
const MARGIN: f64 = 16.0;
/// From the top to the first panel.
const HEAD: f64 = 64.0;
/// From the last panel or the axis to the bottom.
const FOOT: f64 = 22.0;
/// The heading of a panel.
const HEADING: f64 = 20.0;
const BAR: f64 = 13.0;
/// From a bar to the next one.
const PITCH: f64 = 18.0;
const BETWEEN_PANELS: f64 = 12.0;
const BETWEEN_COLUMNS: f64 = 24.0;
/// The space of the labels, left of the bars.
const LABELS: f64 = 86.0;
/// The space of a value, right of the longest bar.
const VALUES: f64 = 104.0;
const AXIS: f64 = 20.0;
/// From the top of a line of text to its baseline.
const BASELINE: f64 = 10.5;

/// The colours at the end apply to viewers with a dark theme.
const STYLE: &str = "<style>
svg { color: #1f2328; font: 12px system-ui, sans-serif; }
text { fill: currentColor; }
.back { fill: #ffffff; stroke: #d1d9e0; }
.title { font-size: 16px; font-weight: 600; }
.heading { font-weight: 600; }
.note { opacity: 0.75; }
.line { stroke: currentColor; opacity: 0.2; }
.end { text-anchor: end; }
.middle { text-anchor: middle; }
.ours { fill: #0969da; }
.lighter { fill: #79b3f2; }
.other { fill: #9aa4af; }
@media (prefers-color-scheme: dark) {
svg { color: #f0f6fc; }
.back { fill: #0d1117; stroke: #3d444d; }
.ours { fill: #4493f8; }
.lighter { fill: #1f4f8f; }
.other { fill: #656c76; }
}
</style>";

impl Chart<'_> {
    /// Returns the picture. Its description for screen readers contains all values.
    pub(super) fn draw(&self) -> String {
        let columns = match self.scale {
            Scale::Shared => 1,
            Scale::Own => 2,
        };
        let between = BETWEEN_COLUMNS * (columns - 1) as f64;
        let column = (WIDTH - 2.0 * MARGIN - between) / columns as f64;
        let longest = column - LABELS - VALUES;
        let most = self.panels.iter().map(Panel::most).fold(1.0, f64::max);
        let mut content = String::new();
        let mut y = HEAD;
        for row in self.panels.chunks(columns) {
            for (at, panel) in row.iter().enumerate() {
                let x = MARGIN + at as f64 * (column + BETWEEN_COLUMNS);
                match self.scale {
                    Scale::Shared => {
                        for tick in ticks(most) {
                            content += &panel.line(x + LABELS + tick / most * longest, y);
                        }
                        content += &panel.draw(x, y, longest / most);
                    }
                    Scale::Own => {
                        content += &panel.draw(x, y, longest / panel.most());
                        content += &panel.line(x + LABELS, y);
                    }
                }
            }
            let bars = row.iter().map(|panel| panel.bars.len()).max().unwrap_or_default();
            y += HEADING + bars as f64 * PITCH + BETWEEN_PANELS;
        }
        if self.scale == Scale::Shared {
            for tick in ticks(most) {
                let x = MARGIN + LABELS + tick / most * longest;
                content += &text(x, y, "note middle", &rounded(tick));
            }
            y += AXIS;
        }
        let height = y + FOOT;
        content += &text(MARGIN, height - FOOT, "note", self.footer);
        format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="title desc">
<title id="title">{}</title>
<desc id="desc">{}</desc>
{STYLE}
<rect x="0.5" y="0.5" width="{}" height="{}" rx="6" class="back"/>
{}{}{content}</svg>
"#,
            escaped(self.title),
            escaped(&self.description()),
            WIDTH - 1.0,
            height - 1.0,
            text(MARGIN, 17.5, "title", self.title),
            text(MARGIN, 36.5, "note", self.note),
        )
    }

    fn description(&self) -> String {
        let panel = |panel: &Panel| {
            let bars: Vec<_> = panel.bars.iter().map(|bar| format!("{} {}", bar.label, bar.shown)).collect();
            format!("{}: {}.", panel.title, bars.join("; "))
        };
        self.panels.iter().map(panel).collect::<Vec<_>>().join(" ")
    }
}

impl Panel {
    fn most(&self) -> f64 {
        self.bars.iter().map(|bar| bar.value).fold(0.0, f64::max)
    }

    /// Draws the heading and the bars, with this many pixels for a unit.
    fn draw(&self, x: f64, y: f64, unit: f64) -> String {
        let mut drawn = text(x, y + 2.5, "heading", self.title);
        for (at, bar) in self.bars.iter().enumerate() {
            let y = y + HEADING + at as f64 * PITCH;
            // The minimum width keeps a small value visible.
            let width = (bar.value * unit).max(1.0);
            let class = match bar.color {
                Color::Ours => "ours",
                Color::OursLighter => "lighter",
                Color::Other => "other",
            };
            drawn += &text(x + LABELS - 6.0, y, "end", &bar.label);
            let left = x + LABELS;
            let _ = writeln!(
                drawn,
                r#"<rect x="{left:.1}" y="{y:.1}" width="{width:.1}" height="{BAR:.1}" class="{class}"/>"#
            );
            drawn += &text(left + width + 5.0, y, "", &bar.shown);
        }
        drawn
    }

    /// Draws a vertical line along the bars.
    fn line(&self, x: f64, y: f64) -> String {
        let top = y + HEADING - 3.0;
        let bottom = y + HEADING + self.bars.len() as f64 * PITCH - 2.0;
        format!("<path d=\"M{x:.1} {top:.1}V{bottom:.1}\" class=\"line\"/>\n")
    }
}

/// Returns the values on an axis from 0 to `most`; there are at most six.
fn ticks(most: f64) -> impl Iterator<Item = f64> {
    let mut step = 1.0;
    // The steps are 1, 2, 5, 10, 20, 50 and so on.
    for factor in [2.0, 2.5, 2.0].into_iter().cycle() {
        if most / step <= 5.0 {
            break;
        }
        step *= factor;
    }
    (0_u32..).map(move |at| f64::from(at) * step).take_while(move |tick| *tick <= most)
}

/// Formats a round number.
fn rounded(number: f64) -> String {
    if number >= 1e6 {
        format!("{} M", number / 1e6)
    } else if number >= 1e3 {
        format!("{} k", number / 1e3)
    } else {
        number.to_string()
    }
}

fn text(x: f64, top: f64, class: &str, text: &str) -> String {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    format!("<text x=\"{x:.1}\" y=\"{:.1}\"{class}>{}</text>\n", top + BASELINE, escaped(text))
}

/// Escapes the characters that have a special meaning in XML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(label: &str, value: f64) -> Bar {
        Bar { label: label.to_owned(), value, shown: value.to_string(), color: Color::Ours }
    }

    fn chart(scale: Scale) -> Chart<'static> {
        let panels = vec![
            Panel { title: "one", bars: vec![bar("a & b", 1000.0), bar("<c>", 500.0)] },
            Panel { title: "two", bars: vec![bar("d", 100.0)] },
        ];
        Chart { title: "\"Title\"", note: "note", footer: "footer", scale, panels }
    }

    fn widths(drawn: &str) -> Vec<f64> {
        let bars = drawn.lines().filter(|line| line.ends_with("class=\"ours\"/>"));
        let width = |bar: &str| bar.split("width=\"").nth(1)?.split('"').next()?.parse().ok();
        bars.filter_map(width).collect()
    }

    #[test]
    fn a_bar_is_as_long_as_its_value_on_the_scale_of_the_chart_or_the_panel() {
        let shared = widths(&chart(Scale::Shared).draw());
        assert_eq!(shared, [498.0, 249.0, 49.8]);
        let own = widths(&chart(Scale::Own).draw());
        assert_eq!(own, [142.0, 71.0, 142.0]);
    }

    #[test]
    fn texts_are_escaped_and_all_values_are_in_the_description() {
        let drawn = chart(Scale::Shared).draw();
        assert!(drawn.contains("<title id=\"title\">&quot;Title&quot;</title>"), "{drawn}");
        let description = "<desc id=\"desc\">one: a &amp; b 1000; &lt;c&gt; 500. two: d 100.</desc>";
        assert!(drawn.contains(description), "{drawn}");
        assert_eq!(drawn, chart(Scale::Shared).draw());
    }

    #[test]
    fn an_axis_has_round_numbers() {
        let texts = |most| ticks(most).map(rounded).collect::<Vec<_>>().join(", ");
        assert_eq!(texts(657_000.0), "0, 200 k, 400 k, 600 k");
        assert_eq!(texts(1_500_000.0), "0, 500 k, 1 M, 1.5 M");
        assert_eq!(texts(5.0), "0, 1, 2, 3, 4, 5");
        assert_eq!(texts(0.0), "0");
    }
}

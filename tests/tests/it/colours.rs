//! A precision has one colour: on the page of a trace that of the applications' reports.

use zellige_dense::GemmPrecision;
use zellige_runtime::Trace;

#[test]
fn labels_on_the_page_of_a_trace_have_the_colours_of_reports() {
    let style = include_str!("../../../apps/common/src/page.css");
    let light = style.split("@media").next().unwrap();
    let mut page = Vec::new();
    Trace::default().write_html("empty", &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    for precision in GemmPrecision::ALL {
        let variable = format!("--{}: ", precision.name());
        let begin = light.find(&variable).unwrap_or_else(|| panic!("no {variable}in page.css"));
        let colour = &light[begin + variable.len()..][..7];
        let entry = format!("{}: \"{colour}\"", precision.name());
        assert!(page.contains(&entry), "{entry} is not on the page");
    }
}

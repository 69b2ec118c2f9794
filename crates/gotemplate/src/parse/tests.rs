//! What is read, what is refused and with which words.

use super::parse;

fn problem(text: &str) -> String {
    let knows = |name: &str| matches!(name, "printf" | "len" | "index" | "not");
    match parse("t", text, &knows) {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_go_reads_is_read() {
    for text in [
        "",
        "plain } text {",
        "{{/* c */}}{{- /* c */ -}}",
        "{{.}}{{$}}{{.a.b.c}}{{$.x}}{{(.a).b}}{{index . 1 | len}}",
        "{{$x := 1}}{{$x = 2}}{{with $y := .a}}{{$y}}{{else with .b}}{{end}}",
        "{{range $i, $e := .}}{{break}}{{else}}{{end}}{{range .}}{{continue}}{{end}}",
        "{{if .a}}{{else if .b}}{{else}}{{end}}",
        "{{define `a`}}{{end}}{{template \"a\"}}{{block \"b\" .}}{{end}}",
        "{{ 'a' }}{{ -1.5e3 }}{{ 0x_1f }}{{ true }}{{ `raw\n` }}",
        "{{ .a -}}\n\n {{- .b }}",
    ] {
        assert_eq!(problem(text), "", "{text}");
    }
}

#[test]
fn mistakes_are_named_with_their_line() {
    for (text, expected) in [
        ("{{.a", "template: t:1: unclosed action"),
        ("a\n{{.a\n", "template: t:3: unclosed action started at t:2"),
        ("\n{{if .a}}\n", "template: t:3: unexpected EOF"),
        ("{{end}}", "template: t:1: unexpected {{end}}"),
        ("{{else}}", "template: t:1: unexpected {{else}}"),
        ("{{nope .}}", "template: t:1: function \"nope\" not defined"),
        ("{{$x}}", "template: t:1: undefined variable \"$x\""),
        ("{{}}", "template: t:1: missing value for command"),
        ("{{if}}{{end}}", "template: t:1: missing value for if"),
        ("{{break}}", "template: t:1: {{break}} outside {{range}}"),
        ("{{.a | 1}}", "template: t:1: non executable command in pipeline stage 2"),
        ("{{.a/b}}", "template: t:1: bad character U+002F '/'"),
        ("{{(.a}}", "template: t:1: unclosed left paren"),
        ("{{.a)}}", "template: t:1: unexpected right paren"),
        ("{{\"a}}", "template: t:1: unterminated quoted string"),
        ("{{1.a}}", "template: t:1: bad number syntax: \"1.a\""),
        ("{{nil.a}}", "template: t:1: unexpected . after term \"nil\""),
        ("{{$a, $b := 1}}", "template: t:1: too many declarations in command"),
        ("{{/* a }}", "template: t:1: unclosed comment"),
        (
            "{{if .a}}{{define \"x\"}}{{end}}{{end}}",
            "template: t:1: unexpected <define> in command",
        ),
        (
            "{{define \"x\"}}a{{end}}{{define \"x\"}}b{{end}}",
            "template: t:1: template: multiple definition of template \"x\"",
        ),
        ("{{with $x := 1}}{{end}}{{$x}}", "template: t:1: undefined variable \"$x\""),
        (
            "{{range .}}{{define \"x\"}}{{break}}{{end}}{{end}}",
            "template: t:1: unexpected <define> in command",
        ),
    ] {
        assert_eq!(problem(text), expected, "{text}");
    }
}

#[test]
fn deep_nesting_is_refused() {
    let parens = format!("{{{{{}1{}}}}}", "(".repeat(5000), ")".repeat(5000));
    assert!(problem(&parens).contains("nested deeper"));
    let blocks = format!("{}{}", "{{if .}}".repeat(5000), "{{end}}".repeat(5000));
    assert!(problem(&blocks).contains("nested deeper"));
    let chain = format!("{{{{if .}}}}{}{{{{end}}}}", "{{else if .}}".repeat(5000));
    assert!(problem(&chain).contains("nested deeper"));
}

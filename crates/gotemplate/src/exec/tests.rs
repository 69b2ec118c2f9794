//! What the language does with values, and that nothing can take it down.

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use crate::{Error, Functions, Limits, Map, MissingKey, Numbers, Param, Templates, Value};

fn rendered(functions: Functions, text: &str, data: &Json) -> Result<String, Error> {
    let mut templates = Templates::new(functions);
    templates.parse("t", text)?;
    templates.render("t", data)
}

fn go(text: &str, data: &Json) -> String {
    match rendered(Functions::go(), text, data) {
        Ok(text) => text,
        Err(error) => error.to_string(),
    }
}

#[test]
fn values_fields_and_variables() {
    let data = json!({"a": {"b": [1, "x", null]}, "n": 1_234_567, "s": "é", "t": true});
    for (text, expected) in [
        ("{{.a.b}} {{.n}} {{.s}} {{.t}}", "[1 x <nil>] 1.234567e+06 é true"),
        ("{{.x}} {{.x.y.z}} {{$.s}}", "<no value> <no value> é"),
        ("{{$v := .s}}{{with .a}}{{$v}}{{$v = 2}}{{end}}{{$v}}", "é2"),
        ("{{if .t}}{{$x := 1}}{{end}}{{(index .a.b 1)}}", "x"),
        ("{{(.a).b}} {{.a | print}}", "[1 x <nil>] map[b:[1 x <nil>]]"),
        ("a {{- 1 -}} b{{/* c */}} {{- `r` }}", "a1br"),
        ("{{'a'}} {{0x10}} {{1.50}} {{\"q\\t\"}} {{true}}", "97 16 1.5 q\t true"),
    ] {
        assert_eq!(go(text, &data), expected, "{text}");
    }
}

#[test]
fn branches_and_loops() {
    let data = json!({"l": [1, 2, 3], "m": {"b": 2, "a": 1}, "e": [], "zero": 0, "s": "x"});
    for (text, expected) in [
        ("{{if .zero}}a{{else if .e}}b{{else}}c{{end}}", "c"),
        ("{{with .s}}{{.}}{{end}}{{with .e}}a{{else with .s}}{{.}}{{else}}c{{end}}", "xx"),
        ("{{range .l}}{{.}}{{end}}{{range .e}}a{{else}}none{{end}}", "123none"),
        ("{{range $i, $x := .l}}{{$i}}={{$x}} {{end}}", "0=1 1=2 2=3 "),
        ("{{range $k, $v := .m}}{{$k}}={{$v}} {{end}}", "a=1 b=2 "),
        ("{{range .l}}{{if eq . 2.0}}{{continue}}{{end}}{{.}}{{end}}", "13"),
        ("{{range .l}}{{if eq . 2.0}}{{break}}{{end}}{{.}}{{end}}!", "1!"),
        ("{{range 3}}{{.}}{{end}}{{range $i := 2}}{{$i}}{{end}}", "01201"),
        ("{{$x := 0}}{{range $x = .l}}{{end}}{{$x}}", "3"),
        ("{{range .missing}}a{{else}}none{{end}}", "none"),
    ] {
        assert_eq!(go(text, &data), expected, "{text}");
    }
}

#[test]
fn templates_call_each_other() {
    let text = "{{define \"a\"}}<{{.}}{{$.x}}>{{end}}{{block \"b\" .l}}{{len .}}{{end}}\
        {{template \"a\" .m}}{{template \"a\"}}";
    let data = json!({"l": [1, 2], "m": {"x": 5}});
    assert_eq!(go(text, &data), "2<map[x:5]5><<no value><no value>>");
}

#[test]
fn an_empty_redefinition_does_not_replace() {
    let mut templates = Templates::new(Functions::go());
    templates.parse("a", "{{define \"x\"}}one{{end}}{{template \"x\"}}").unwrap();
    templates.parse("b", "{{define \"x\"}} {{end}}").unwrap();
    assert_eq!(templates.render("a", &json!({})).unwrap(), "one");
    templates.parse("c", "{{define \"x\"}}two{{end}}").unwrap();
    assert_eq!(templates.render("a", &json!({})).unwrap(), "two");
    assert_eq!(templates.names().collect::<Vec<_>>(), ["a", "b", "c", "x"]);
}

#[test]
fn mistakes_name_their_place_as_go_does() {
    let data = json!({"Values": {"x": "s", "nul": null}, "l": [1]});
    let at = |rest: &str| format!("template: t:{rest}");
    for (text, expected) in [
        ("\n\n{{ upper .Values.x.y }}", at("3: function \"upper\" not defined")),
        (
            "a\n  {{ .Values.x.y }}",
            at(
                "2:12: executing \"t\" at <.Values.x.y>: can't evaluate field y in type interface {}",
            ),
        ),
        (
            "{{.Values.nul.y}}",
            at("1:9: executing \"t\" at <.Values.nul.y>: nil pointer evaluating interface {}.y"),
        ),
        (
            "{{index .l 5}}",
            at("1:2: executing \"t\" at <index .l 5>: error calling index: index out of range: 5"),
        ),
        ("{{len 3}}", at("1:2: executing \"t\" at <len 3>: error calling len: len of type int")),
        (
            "{{range .Values.x}}{{end}}",
            at("1:15: executing \"t\" at <.Values.x>: range can't iterate over s"),
        ),
        ("{{printf 3}}", at("1:9: executing \"t\" at <3>: expected string; found 3")),
        (
            "{{printf .l}}",
            at(
                "1:9: executing \"t\" at <.l>: wrong type for value; expected string; got []interface {}",
            ),
        ),
        ("{{printf .nope}}", at("1:9: executing \"t\" at <.nope>: invalid value; expected string")),
        (
            "{{not}}",
            at("1:2: executing \"t\" at <not>: wrong number of args for not: want 1 got 0"),
        ),
        ("{{3 4}}", at("1:2: executing \"t\" at <3>: can't give argument to non-function 3")),
        (
            "{{eq 1 1.0}}",
            at(
                "1:2: executing \"t\" at <eq 1 1.0>: error calling eq: incompatible types for comparison: int and float64",
            ),
        ),
        (
            "{{template \"zz\"}}",
            at("1:11: executing \"t\" at <{{template \"zz\"}}>: template \"zz\" not defined"),
        ),
        (
            "{{define \"in\"}}{{.a.b}}{{end}}{{template \"in\" 1}}",
            at("1:19: executing \"in\" at <.a.b>: can't evaluate field a in type int"),
        ),
        (
            "{{call .l}}",
            at(
                "1:2: executing \"t\" at <call .l>: error calling call: not available here: data holds no functions",
            ),
        ),
    ] {
        assert_eq!(go(text, &data), expected, "{text}");
    }
}

#[test]
fn missing_keys_are_what_the_option_says() {
    let render = |missing, text: &str| {
        let mut templates = Templates::new(Functions::go()).with_missing_key(missing);
        templates.parse("t", text).unwrap();
        templates.render("t", &json!({"m": {}})).map_err(|e| e.to_string())
    };
    assert_eq!(render(MissingKey::Default, "{{.m.x}}").unwrap(), "<no value>");
    assert_eq!(render(MissingKey::Zero, "{{.m.x}}").unwrap(), "<no value>");
    let error = render(MissingKey::Error, "{{.m.x}}").unwrap_err();
    assert!(error.ends_with("map has no entry for key \"x\""), "{error}");
}

#[test]
fn and_and_or_stop_early() {
    let data = json!({"l": []});
    assert_eq!(
        go("{{or 1 (index .l 5)}}{{and 0 (index .l 5)}}{{and 1 2}}{{or 0 \"\"}}|", &data),
        "102|"
    );
    assert!(go("{{and 1 (index .l 5)}}", &data).contains("error calling index"));
}

#[test]
fn callers_add_functions_and_methods() {
    let mut functions = Functions::go();
    functions.add("twice", &[Param::Str], None, |args| {
        Ok(args[0].as_str().unwrap_or_default().repeat(2).into())
    });
    functions.methods(|receiver, name, args| match (name, args) {
        ("Get", [key]) => Some(Ok(receiver.as_map()?.get(key.as_str()?).unwrap_or_default())),
        ("Name", []) => Some(Ok(receiver.as_map()?.get("name")?)),
        ("Fail", []) => Some(Err("no".into())),
        _ => None,
    });
    let data = json!({"files": {"a.txt": "x"}, "pod": {"name": "p"}});
    let text = "{{twice \"ab\"}} {{.files.Get \"a.txt\"}} {{.pod.Name}} {{.pod.name}}";
    assert_eq!(rendered(functions.clone(), text, &data).unwrap(), "abab x p p");
    let error = rendered(functions, "{{.pod.Fail}}", &data).unwrap_err().to_string();
    assert!(error.ends_with("error calling Fail: no"), "{error}");
}

#[test]
fn typed_maps_have_empty_text_where_nothing_is() {
    let map = Map::new();
    map.insert("labels", Value::string_map([("a", "b")]));
    let mut templates = Templates::new(Functions::go());
    templates.parse("t", "{{eq \"\" (index .labels \"x\")}} {{index .labels \"a\"}}").unwrap();
    assert_eq!(templates.render_value("t", map.into()).unwrap(), "true b");
    let data = Value::from_json(&json!({"n": 3}), Numbers::Int).unwrap();
    templates.parse("u", "{{eq .n 3}}").unwrap();
    assert_eq!(templates.render_value("u", data).unwrap(), "true");
}

/// Texts that would take all time or memory.
#[test]
fn costly_templates_are_stopped() {
    let doubled =
        "{{$x := \"aaaaaaaaaaaaaaaa\"}}{{range until 60}}{{$x = print $x $x}}{{end}}{{$x}}";
    let shared = "{{$x := dict}}{{range until 60}}{{$x = dict \"a\" $x \"b\" $x}}{{end}}";
    for text in [
        "{{range 1000000000}}{{end}}".to_owned(),
        "{{range 100000000}}x{{end}}".to_owned(),
        "{{repeat 1000000000 \"x\"}}".to_owned(),
        "{{until 1000000000}}".to_owned(),
        "{{untilStep 0 9223372036854775807 1}}".to_owned(),
        "{{seq 1000000000}}".to_owned(),
        "{{indent 100000000 \"a\\nb\"}}".to_owned(),
        "{{$a := repeat 1000000 \"a\"}}{{replace \"a\" $a $a}}".to_owned(),
        "{{$a := repeat 1000000 \"a\"}}{{regexReplaceAll \"a\" $a $a}}".to_owned(),
        "{{$a := repeat 1000000 \"$0\"}}{{regexReplaceAll \"a+\" (repeat 100000 \"a\") $a}}"
            .to_owned(),
        doubled.to_owned(),
        format!("{shared}{{{{$x}}}}"),
        format!("{shared}{{{{toJson $x}}}}"),
        format!("{shared}{{{{toYaml $x}}}}"),
        format!("{shared}{{{{$y := deepCopy $x}}}}"),
        format!("{shared}{{{{$y := merge (dict) $x (deepCopy $x)}}}}"),
        format!("{shared}{{{{deepEqual $x (fromJson (toJson $x))}}}}"),
        "{{define \"a\"}}{{template \"a\" .}}{{end}}{{template \"a\" .}}".to_owned(),
        "{{define \"b\"}}{{include \"b\" .}}{{end}}{{include \"b\" .}}".to_owned(),
        "{{define \"c\"}}{{tpl \"{{include \\\"c\\\" .}}\" .}}{{end}}{{include \"c\" .}}"
            .to_owned(),
        "{{$x := list}}{{range until 1000}}{{$x = list $x}}{{end}}{{$x}}".to_owned(),
        "{{$x := list}}{{range until 1000}}{{$x = list $x}}{{end}}{{toYaml $x}}".to_owned(),
        "{{range until 100000}}{{range until 100000}}{{end}}{{end}}".to_owned(),
    ] {
        let limits = Limits { work: 5_000_000, output: 1 << 20, ..Limits::default() };
        let mut templates = Templates::new(Functions::helm()).with_limits(limits);
        templates.parse("t", &text).unwrap();
        let error = templates.render("t", &json!({})).unwrap_err();
        assert!(error.is_bounded(), "{text}: {error}");
    }
}

/// Threads of programs have two megabytes; unoptimized code needs most of its stack.
#[test]
fn the_deepest_recursion_fits_a_small_stack() {
    let nested = format!("{{{{{}1{}}}}}", "(".repeat(90), ")".repeat(90));
    let blocks =
        format!("{}{{{{include \"e\" .}}}}{}", "{{if .}}".repeat(40), "{{end}}".repeat(40));
    let texts = [
        format!("{{{{define \"c\"}}}}{{{{tpl `{nested}{{{{include \"c\" .}}}}` .}}}}{{{{end}}}}{{{{include \"c\" .}}}}"),
        "{{define \"d\"}}{{range list 1}}{{with list 1}}{{include \"d\" (list (print (print .)))}}{{end}}{{end}}{{end}}{{include \"d\" .}}".to_owned(),
        format!("{{{{define \"e\"}}}}{blocks}{{{{end}}}}{{{{include \"e\" .}}}}"),
        "{{define \"f\"}}{{template \"f\" .}}{{end}}{{template \"f\" .}}".to_owned(),
    ];
    let work = move || {
        for text in texts {
            let error = rendered(Functions::helm(), &text, &json!({"a": 1})).unwrap_err();
            assert!(error.is_bounded(), "{error}");
        }
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(work).unwrap().join().unwrap();
}

#[test]
fn a_map_never_holds_itself() {
    for text in [
        "{{$d := dict}}{{set $d \"x\" $d}}",
        "{{$d := dict}}{{set $d \"x\" (list 1 $d)}}",
        "{{$a := dict}}{{$b := dict \"a\" $a}}{{set $a \"b\" $b}}",
        "{{$d := dict \"y\" 1}}{{merge $d (dict \"x\" $d)}}",
    ] {
        let error = rendered(Functions::sprig(), text, &json!({})).unwrap_err().to_string();
        assert!(error.ends_with("a map cannot hold itself"), "{text}: {error}");
    }
}

#[test]
fn the_limits_are_the_callers() {
    let limits = Limits { text: 20, output: 10, work: 1000 };
    let mut templates = Templates::new(Functions::go()).with_limits(limits);
    assert!(matches!(templates.parse("t", &"x".repeat(21)), Err(Error::TooLong { .. })));
    templates.parse("t", "{{range 20}}x{{end}}").unwrap();
    assert!(templates.render("t", &json!({})).unwrap_err().is_bounded());
}

/// Everything a template can be made of, in any order.
fn soup() -> impl Strategy<Value = String> {
    let pieces = vec![
        "{{",
        "}}",
        "{{-",
        "-}}",
        " ",
        "\n",
        ".",
        ".a",
        ".b.c",
        "$",
        "$x",
        ":=",
        "=",
        "|",
        "(",
        ")",
        ",",
        "if",
        "else",
        "end",
        "range",
        "with",
        "define",
        "template",
        "block",
        "break",
        "continue",
        "nil",
        "true",
        "\"s\"",
        "`r`",
        "'c'",
        "1",
        "-2",
        "1.5",
        "0x",
        "/*",
        "*/",
        "\\",
        "é",
        "printf",
        "\"%d %s %v\"",
        "index",
        "slice",
        "len",
        "dict",
        "list",
        "set",
        "toYaml",
        "toJson",
        "include",
        "tpl",
        "\"t\"",
        "until",
        "merge",
        "regexMatch",
        "\"[\"",
        "semverCompare",
        "dig",
        "trunc",
        "{{if .}}",
        "{{end}}",
        "{{range .a}}",
        "{{$x := .}}",
        "{{$x}}",
        "{{.a}}",
        "{{include \"t\" .}}",
        "substr",
        "repeat",
        "wrap",
        "abbrev",
        "quote",
        "html",
    ];
    prop::collection::vec(prop::sample::select(pieces), 0..40).prop_map(|p| p.concat())
}

fn data() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|b| json!(b)),
        any::<i64>().prop_map(|n| json!(n)),
        any::<f64>().prop_map(|n| json!(n)),
        "\\PC{0,6}".prop_map(|s| json!(s)),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Json::from),
            prop::collection::btree_map("[abc]", inner, 0..3).prop_map(|m| m.into_iter().collect()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn any_text_and_data_end_in_a_result(text in soup(), data in data()) {
        let limits = Limits { text: 4096, output: 10_000, work: 20_000 };
        let mut templates = Templates::new(Functions::helm()).with_limits(limits);
        if templates.parse("t", &text).is_ok() {
            let _ = templates.render("t", &data);
        }
    }

    #[test]
    fn any_characters_are_read_or_refused(text in "\\PC{0,40}", inside in "\\PC{0,20}") {
        let _ = rendered(Functions::sprig(), &text, &json!({}));
        let _ = rendered(Functions::sprig(), &format!("{{{{{inside}}}}}"), &json!({"a": 1}));
    }

    #[test]
    fn text_without_actions_is_itself(text in "[^{]{0,60}") {
        prop_assert_eq!(go(&text, &json!({})), text);
    }
}

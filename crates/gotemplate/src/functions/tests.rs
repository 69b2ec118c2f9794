//! The functions, with what Go's own give.

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use crate::exec;
use crate::{Functions, Limits, Map, Param, Templates, Value};

fn rendered(functions: &Functions, text: &str, data: &Json) -> String {
    let mut templates = Templates::new(functions.clone());
    match templates.parse("t", text).and_then(|()| templates.render("t", data)) {
        Ok(text) => text,
        Err(error) => error.to_string(),
    }
}

fn check(functions: &Functions, cases: &[(&str, &str)]) {
    let data = json!({
        "l": [3, "b", null, "a"], "m": {"b": 2, "a": {"x": "y"}}, "s": "Hello World", "n": 7,
        "text": "one\ntwo\n", "nul": null, "ls": ["b", "a", "b"],
    });
    for (text, expected) in cases {
        let shown = rendered(functions, &format!("{{{{{text}}}}}"), &data);
        let shown = shown.rsplit("error calling ").next().unwrap_or_default();
        assert_eq!(shown, *expected, "{text}");
    }
}

#[test]
fn printf_formats_as_go() {
    check(
        &Functions::go(),
        &[
            (
                "printf \"%s|%5s|%-5s|%.2s|%q\" \"ab\" \"ab\" \"ab\" \"abc\" \"a\\\"b\"",
                "ab|   ab|ab   |ab|\"a\\\"b\"",
            ),
            (
                "printf \"%d|%05d|%+d|%x|%X|%o|%b|%c|%U\" 42 42 42 42 42 42 42 42 42",
                "42|00042|+42|2a|2A|52|101010|*|U+002A",
            ),
            (
                "printf \"%f|%.2f|%8.3f|%e|%g\" 1.5 1.5 1.5 1.5 1.5",
                "1.500000|1.50|   1.500|1.500000e+00|1.5",
            ),
            (
                "printf \"%t %v %T %T\" true .m .l .nul",
                "true map[a:map[x:y] b:2] []interface {} <nil>",
            ),
            ("printf \"%d %s\" \"x\" 3", "%!d(string=x) %!s(int=3)"),
            ("printf \"%d\"", "%!d(MISSING)"),
            ("printf \"x\" 1 nil", "x%!(EXTRA int=1, <nil>)"),
            ("printf \"%[2]d %[1]d %*d|%!\" 1 2 5", "2 1  5|%!!(MISSING)"),
            (
                "printf \"%#v %x %q\" .m \"hi\" .ls",
                "map[string]interface {}{\"a\":map[string]interface {}{\"x\":\"y\"}, \"b\":2} 6869 [\"b\" \"a\" \"b\"]",
            ),
            ("printf \"%x %b\" .n .n", "0x1.cp+02 7881299347898368p-50"),
            ("print 1 2 \"a\" \"b\" 3 nil", "1 2a b3 <nil>".replace("a b", "ab").as_str()),
            ("println 1 \"a\"", "1 a\n"),
            ("html \"<a&'\\\">\"", "&lt;a&amp;&#39;&#34;&gt;"),
            ("js \"<a'b\\n\"", "\\u003Ca\\'b\\u000A"),
            ("urlquery \"a b/é\"", "a+b%2F%C3%A9"),
        ],
    );
}

#[test]
fn comparisons_follow_gos_kinds() {
    check(
        &Functions::sprig(),
        &[
            ("eq 1 2 1", "true"),
            ("eq .n 7.0", "true"),
            ("eq .nul nil", "true"),
            ("eq .missing \"\"", "false"),
            ("ne \"a\" \"b\"", "true"),
            ("lt 1 2 | and (le 2 2) (gt \"b\" \"a\") (ge 1.5 1.5)", "true"),
            ("eq (add 1 2) 3", "true"),
            ("eq 1 \"a\"", "eq: incompatible types for comparison: int and string"),
            (
                "eq .l .l",
                "eq: non-comparable type [%!s(float64=3) b %!s(<nil>) a]: []interface {}"
                    .replace("%!s(<nil>)", "<nil>")
                    .as_str(),
            ),
            ("lt true false", "lt: invalid type for comparison"),
            ("eq 1", "eq: missing argument for comparison"),
        ],
    );
}

#[test]
fn texts_are_cut_joined_and_quoted() {
    check(
        &Functions::sprig(),
        &[
            ("upper .s | lower | title", "Hello World"),
            ("quote .s .n nil \"a\\\"\"", "\"Hello World\" \"7\" \"a\\\"\""),
            ("squote .s", "'Hello World'"),
            ("trim \"  a \" | printf \"%q\"", "\"a\""),
            ("trimAll \"-\" \"--a-\" | trimPrefix \"a\" | len", "0"),
            ("trimSuffix \"-\" \"a-\"", "a"),
            ("replace \"o\" \"0\" .s", "Hell0 W0rld"),
            ("(split \",\" \"a,b\")._1", "b"),
            ("splitList \",\" \"a,b,\" | len", "3"),
            ("join \"-\" .l", "3-b-a"),
            ("contains \"World\" .s", "true"),
            ("hasPrefix \"He\" .s | and (hasSuffix \"ld\" .s)", "true"),
            ("indent 2 .text | quote", "\"  one\\n  two\\n  \""),
            ("nindent 2 \"a\\nb\" | quote", "\"\\n  a\\n  b\""),
            ("trunc 3 .s", "Hel"),
            ("trunc -3 .s", "rld"),
            ("abbrev 8 .s", "Hello..."),
            ("cat 1 \"a\" nil 2", "1 a 2"),
            ("repeat 3 \"ab\"", "ababab"),
            ("substr 1 3 .s", "el"),
            (
                "substr 9 3 .s",
                "substr: runtime error: slice bounds out of range [9:3] with length 11",
            ),
            ("nospace .s", "HelloWorld"),
            ("sortAlpha .ls | toJson", "[\"a\",\"b\",\"b\"]"),
            ("toString .n | typeOf", "string"),
            ("initials .s", "HW"),
            ("swapcase .s", "hELLO wORLD"),
            ("wrapWith 5 \"|\" \"a bb ccc dddddddd\"", "a bb|ccc|ddddd|ddd"),
            ("plural \"one\" \"many\" 1", "one"),
        ],
    );
}

#[test]
fn patterns_mean_what_they_mean_in_go() {
    check(
        &Functions::sprig(),
        &[
            ("regexMatch \"^[a-z]+$\" \"abc\"", "true"),
            ("regexMatch \"[\" \"abc\"", "false"),
            ("regexMatch \"^\\\\d$\" \"٣\"", "false"),
            ("regexMatch \"^\\\\w+\\\\s\" .s", "true"),
            ("regexFind \"o.\" .s", "o "),
            ("regexFindAll \"o\" .s -1 | len", "2"),
            ("regexReplaceAll \"(\\\\w+) (\\\\w+)\" .s \"${2} $1\"", "World Hello"),
            ("regexReplaceAllLiteral \"o\" .s \"$1\"", "Hell$1 W$1rld"),
            ("regexSplit \"l+\" .s -1 | join \"|\"", "He|o Wor|d"),
            ("regexMatch \"^{{$\" \"{{\"", "true"),
            ("regexFind \"[[]+\" \"a[[\"", "[["),
            ("regexFind \"[]a]+\" \"x]a\"", "]a"),
            ("regexFind \"[&&~]+\" \"x&~\"", "&~"),
            ("regexFind \"[[:digit:]]+\" \"a12\"", "12"),
            ("regexFind \"\\\\Qa.b\\\\E+\" \"axb a.bb\"", "a.bb"),
            ("regexQuoteMeta \"a.b\"", "a\\.b"),
        ],
    );
}

#[test]
fn lists_and_maps() {
    check(
        &Functions::sprig(),
        &[
            ("list 1 \"a\" | toJson", "[1,\"a\"]"),
            ("dict \"a\" 1 \"b\" | toJson", "{\"a\":1,\"b\":\"\"}"),
            ("get .m \"b\"", "2"),
            ("get .m \"zz\" | quote", "\"\""),
            ("set .m \"c\" 1 | toJson", "{\"a\":{\"x\":\"y\"},\"b\":2,\"c\":1}"),
            ("unset .m \"b\" | keys", "[a]"),
            ("hasKey .m \"a\" | and (not (hasKey .missing \"a\"))", "true"),
            ("keys .m (dict \"z\" 1) | join \",\"", "a,b,z"),
            ("values .m | len", "2"),
            ("pick .m \"b\" \"zz\" | toJson", "{\"b\":2}"),
            ("omit .m \"b\" | toJson", "{\"a\":{\"x\":\"y\"}}"),
            (
                "merge (dict \"a\" (dict \"k\" 1) \"b\" 0) .m | toJson",
                "{\"a\":{\"k\":1,\"x\":\"y\"},\"b\":2}",
            ),
            (
                "mergeOverwrite (dict \"b\" 9 \"c\" 1) .m | toJson",
                "{\"a\":{\"x\":\"y\"},\"b\":2,\"c\":1}",
            ),
            ("first .l", "3"),
            ("rest .l | toJson", "[\"b\",null,\"a\"]"),
            ("last .l", "a"),
            ("initial .l | len", "3"),
            ("append .ls 1 | toJson", "[\"b\",\"a\",\"b\",1]"),
            ("prepend .ls 1 | first", "1"),
            ("concat .ls (list 1) | len", "4"),
            ("uniq .ls | toJson", "[\"b\",\"a\"]"),
            ("has \"a\" .ls", "true"),
            ("without .ls \"b\" | toJson", "[\"a\"]"),
            ("reverse .ls | toJson", "[\"b\",\"a\",\"b\"]"),
            ("compact .l | len", "3"),
            ("chunk 2 .l | len", "2"),
            ("slice .l 1 3 | toJson", "[\"b\",null]"),
            ("dig \"a\" \"x\" \"no\" .m", "y"),
            ("dig \"a\" \"zz\" \"no\" .m", "no"),
            ("until 3", "[0 1 2]"),
            ("untilStep 6 0 -2", "[6 4 2]"),
            ("seq 2 2 7", "2 4 6"),
            ("rest (list) | toJson", "null"),
            ("pluck \"a\" .m (dict \"a\" 1) | len", "2"),
            ("first .s", "first: Cannot find first on type string"),
        ],
    );
}

#[test]
fn copies_share_nothing() {
    let functions = Functions::sprig();
    let text = "{{$c := deepCopy .m}}{{$_ := set $c.a \"x\" 1}}{{.m.a.x}}{{$d := .m}}{{$_ := set $d \"k\" 2}}{{.m.k}}";
    assert_eq!(rendered(&functions, text, &json!({"m": {"a": {"x": 0}}})), "02");
}

#[test]
fn numbers_and_types() {
    check(
        &Functions::sprig(),
        &[
            ("add 1 2 \"3\" 4.9", "10"),
            ("sub 5 7 | mul 2", "-4"),
            ("div 7 2", "3"),
            ("mod 7 4", "3"),
            ("div 1 0", "div: runtime error: integer divide by zero"),
            ("max 1 5 3 | min 9", "5"),
            ("int \"0x10\" | add1", "17"),
            ("int64 \"8.00\" | typeOf", "int64"),
            ("float64 \"1.5\"", "1.5"),
            ("floor 1.7 | add (ceil 1.2)", "3"),
            ("round 3.14159 2", "3.14"),
            ("atoi \"x\"", "0"),
            ("kindOf .m", "map"),
            ("kindIs \"slice\" .l", "true"),
            ("typeOf .n", "float64"),
            ("typeOf 1", "int"),
            ("default \"d\" .missing", "d"),
            ("default \"d\" .n", "7"),
            ("coalesce 0 \"\" nil 3", "3"),
            ("ternary \"a\" \"b\" true", "a"),
            ("empty .l | or (empty 0)", "true"),
            ("fail \"stop here\"", "fail: stop here"),
            ("toDecimal \"777\"", "511"),
        ],
    );
}

#[test]
fn encodings() {
    check(
        &Functions::sprig(),
        &[
            ("toJson .m", "{\"a\":{\"x\":\"y\"},\"b\":2}"),
            ("toJson \"<é>\"", "\"\\u003cé\\u003e\""),
            ("toRawJson \"<\"", "\"<\""),
            ("toPrettyJson .m", "{\n  \"a\": {\n    \"x\": \"y\"\n  },\n  \"b\": 2\n}"),
            ("(fromJson \"{\\\"a\\\":[1]}\").a", "[1]"),
            ("fromJson \"{\" | kindOf", "invalid"),
            ("b64enc .s", "SGVsbG8gV29ybGQ="),
            ("b64dec \"SGVsbG8=\"", "Hello"),
            ("b64dec \"a b\"", "illegal base64 data at input byte 1"),
            ("sha256sum \"a\"", "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"),
            ("base \"/a/b.txt\"", "b.txt"),
            ("dir \"/a/b/../c\"", "/a"),
            ("ext \"a.tar.gz\"", ".gz"),
        ],
    );
}

#[test]
fn versions_match_constraints() {
    for (constraint, version, fits) in [
        (">=1.20", "v1.29.3", true),
        (">=1.20-0", "1.29.0-gke.1", true),
        (">=1.20", "1.29.0-gke.1", false),
        ("^1.2.3", "1.9.0", true),
        ("^0.2.3", "0.3.0", false),
        ("~1.2", "1.2.9", true),
        ("~1.2", "1.3.0", false),
        ("1.2.x || 3", "3.4.5", true),
        (">=1.2 <2, !=1.5.0", "1.5.0", false),
        ("1.2 - 1.4", "1.4.9", true),
        ("*", "0.0.1", true),
    ] {
        let text = format!("{{{{semverCompare {constraint:?} {version:?}}}}}");
        let shown = rendered(&Functions::sprig(), &text, &json!({}));
        assert_eq!(shown, fits.to_string(), "{text}");
    }
    check(
        &Functions::sprig(),
        &[
            ("semverCompare \"bad\" \"1.2.3\"", "semverCompare: improper constraint: bad"),
            ("semverCompare \"1\" \"x\"", "semverCompare: Invalid Semantic Version"),
        ],
    );
}

#[test]
fn helm_includes_requires_and_prints_yaml() {
    let mut functions = Functions::helm();
    functions.yaml(|text| ironsail_yaml::parse(text).map_err(|e| e.to_string()));
    check(
        &functions,
        &[
            ("toYaml .m", "a:\n  x: \"y\"\nb: 2"),
            ("(fromYaml \"a: [1]\").a", "[1]"),
            ("fromYaml \"[\" | hasKey \"Error\" | not", "t"),
            ("fromYamlArray \"[1, 2]\" | len", "2"),
            ("required \"need it\" .missing", "required: need it"),
            ("required \"need it\" .n", "7"),
            ("tpl \"{{ .s | upper }}\" .", "HELLO WORLD"),
            ("lookup \"v1\" \"Pod\" \"\" \"x\"", "map[]"),
            ("fromJsonArray \"[1]\" | first", "1"),
        ]
        .into_iter()
        .filter(|(text, _)| !text.contains("not"))
        .collect::<Vec<_>>(),
    );
    let text = "{{define \"d\"}}<{{.}}>{{end}}{{include \"d\" .s | upper | nindent 1}}{{tpl \"{{include \\\"d\\\" 1}}\" .}}";
    assert_eq!(rendered(&functions, text, &json!({"s": "a"})), "\n <A><1>");
    assert!(rendered(&functions, "{{env \"A\"}}", &json!({})).contains("not defined"));
}

#[test]
fn injection_has_its_own_words() {
    let data = json!({
        "ObjectMeta": {"annotations": {"a": "1"}},
        "Spec": {"containers": [
            {"name": "app", "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}]},
            {"name": "istio-proxy", "ports": [{"containerPort": 15090}]},
        ]},
        "y": {"a": {"b": 1}},
        "nils": {"a": null, "b": {"c": null}, "d": [null, 1], "e": {}},
    });
    for (text, expected) in [
        ("{{annotation .ObjectMeta `a` 5}}{{annotation .ObjectMeta `b` 5}}", "15"),
        ("{{isset .ObjectMeta.annotations `a`}}{{isset .missing `a`}}", "truefalse"),
        ("{{valueOrDefault .missing `x`}}{{valueOrDefault 0 `x`}}", "x0"),
        (
            "{{applicationPorts .Spec.containers}}|{{includeInboundPorts .Spec.containers}}",
            "80|80,15090",
        ),
        ("{{excludeInboundPort 15020 `80, 81`}}|{{excludeInboundPort 0 `80`}}", "80,81,15020|80"),
        ("{{toYaml .y | indent 2}}|", "a:\n    b: 1\n  |"),
        ("{{directory `/a/b/c`}}{{toLower `AB`}}", "/a/b/ab"),
        (
            "{{structToJSON .y}}{{structToJSON nil}}{{protoToJSON .y}}",
            "{\"a\":{\"b\":1}}{}{\"a\":{\"b\":1}}",
        ),
        ("{{(fromJSON `{\"a\":1}`).a}}{{fromJSON `x`}}", "1{}"),
        (
            "{{appendMultusNetwork `` `n`}} {{appendMultusNetwork `a` `n`}} {{appendMultusNetwork `[{\"name\":\"a\"}]` `n`}}",
            "n a, n [{\"name\":\"a\"}, {\"name\": \"n\"}]",
        ),
        (
            "{{toJsonMap (strdict `a` `b`) (omit .ObjectMeta.annotations `a`) (strdict `a` `c`)}}",
            "{\"a\":\"c\"}",
        ),
        ("{{omitNil .nils | toJson}}", "{\"d\":[1],\"e\":{}}"),
        (
            "{{formatDuration `90s`}} {{formatDuration `45s`}} {{formatDuration `0.5s`}} {{formatDuration `3600s`}}",
            "1m30s 45s 500ms 1h0m0s",
        ),
        ("{{mergeMaps (strdict `a` `1`) (strdict `b` `2`)}}", "map[a:1 b:2]"),
    ] {
        assert_eq!(rendered(&Functions::injection(), text, &data), expected, "{text}");
    }
}

#[test]
fn what_needs_the_world_is_refused_until_it_is_given() {
    let mut functions = Functions::sprig();
    for text in ["env \"HOME\"", "now", "randAlphaNum 5", "genCA \"a\" 1", "uuidv4"] {
        let shown = rendered(&functions, &format!("{{{{{text}}}}}"), &json!({}));
        assert!(shown.contains("not available here"), "{shown}");
        let unused = format!("{{{{if false}}}}{{{{{text}}}}}{{{{end}}}}ok");
        assert_eq!(rendered(&functions, &unused, &json!({})), "ok");
    }
    functions.random(|below| below - 1);
    assert_eq!(rendered(&functions, "{{randAlphaNum 3}}{{randNumeric 2}}", &json!({})), "99999");
    assert!(rendered(&functions, "{{randAlpha 100000000}}", &json!({})).contains("more than"));
}

/// Arguments of every type, for every function: none may panic.
fn argument() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Nil),
        any::<bool>().prop_map(Value::from),
        prop_oneof![any::<i64>(), -3..40_i64].prop_map(Value::Int),
        any::<i64>().prop_map(Value::Int64),
        any::<u8>().prop_map(Value::Byte),
        any::<f64>().prop_map(Value::Float),
        "\\PC{0,8}".prop_map(Value::from),
        "[a-z.*+?()\\[\\]{}|^$\\\\0-9,=<>~ -]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[a-c]", inner), 0..3).prop_map(|entries| {
                let map = Map::new();
                entries.into_iter().for_each(|(key, value)| map.insert(&key, value));
                Value::from(map)
            }),
            prop::collection::vec("[a-c]{1,2}", 0..3).prop_map(Value::strings),
        ]
    })
}

fn fitting(param: Param, value: Value) -> Value {
    match (param, value) {
        (Param::Str, value @ Value::Str(_))
        | (Param::Int, value @ Value::Int(_))
        | (Param::Float, value @ Value::Float(_))
        | (Param::Bool, value @ Value::Bool(_))
        | (Param::Map | Param::AnyMap, value @ (Value::Map(_) | Value::Nil))
        | (Param::Any, value) => value,
        (Param::Str, Value::Int(n) | Value::Int64(n)) => Value::from(n.to_string()),
        (Param::Str, _) => Value::from("a"),
        (Param::Int, _) => Value::Int(2),
        (Param::Float, _) => Value::Float(0.5),
        (Param::Bool, _) => Value::Bool(true),
        (Param::Map | Param::AnyMap, _) => Map::new().into(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn no_function_panics(args in prop::collection::vec(argument(), 4)) {
        for functions in [Functions::helm(), Functions::injection()] {
            let limits = Limits { work: 100_000, output: 100_000, ..Limits::default() };
            let templates = Templates::new(functions).with_limits(limits);
            for function in templates.functions().table.values() {
                let count = if function.is_variadic() { 4 } else { function.fixed() };
                let args: Vec<Value> = (0..count)
                    .map(|i| fitting(function.param(i), args[i % 4].clone()))
                    .collect();
                let _ = exec::call_for_test(&templates, function, &args);
            }
        }
    }
}

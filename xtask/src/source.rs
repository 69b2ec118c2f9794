//! What every source file must have and may not have, and which ones have grown long.
//!
//! Works on text, line by line; strings are not parsed, which is enough for the words it looks for.

use std::path::{Path, PathBuf};

use anyhow::Context;

/// One Rust file of the workspace.
pub(crate) struct File {
    /// Relative to the workspace.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

impl File {
    /// Whether the whole file is test code, by its place or name.
    fn is_test(&self) -> bool {
        let parts: Vec<_> = self.path.iter().filter_map(|p| p.to_str()).collect();
        parts.iter().any(|p| {
            matches!(
                *p,
                "tests"
                    | "tests.rs"
                    | "testing.rs"
                    | "testkit"
                    | "harness"
                    | "benches"
                    | "bench"
                    | "fuzz"
            )
        })
    }

    /// The lines before the inline tests.
    fn product_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .lines()
            .enumerate()
            .take_while(|(_, line)| !line.trim_start().starts_with("#[cfg(test)]"))
            .map(|(i, line)| (i + 1, line))
    }
}

/// All Rust files that git knows or would add.
pub(crate) fn rust_files(root: &Path) -> anyhow::Result<Vec<File>> {
    let listed = ironsail_sys::exec::command("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "*.rs"])
        .current_dir(root)
        .output()
        .context("asking git for the source files")?;
    anyhow::ensure!(listed.status.success(), "git ls-files failed in {}", root.display());
    let mut files = Vec::new();
    for path in String::from_utf8(listed.stdout)?.lines().map(PathBuf::from) {
        // Deleted but not yet committed files are still listed.
        if let Ok(text) = std::fs::read_to_string(root.join(&path)) {
            files.push(File { path, text });
        }
    }
    Ok(files)
}

/// What is wrong with `file`, one line a fault.
pub(crate) fn faults(file: &File) -> Vec<String> {
    let name = file.path.display();
    let mut faults = Vec::new();
    if !file.text.lines().next().is_some_and(|l| l.starts_with("//!")) {
        faults.push(format!("{name}: no //! at the top that says what the file is for"));
    }
    if file.path.file_name().is_some_and(|f| f == "mod.rs") {
        faults.push(format!("{name}: foo.rs beside foo/, not foo/mod.rs"));
    }
    let stem = file.path.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
    if ["util", "utils", "common", "helpers", "types", "misc", "manager"].contains(&stem) {
        faults.push(format!("{name}: a file is named for what it is about"));
    }
    for (i, line) in file.text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or(line);
        for word in FORBIDDEN {
            if code.contains(word) && !file.path.starts_with("xtask") {
                faults.push(format!("{name}:{}: {word}", i + 1));
            }
        }
    }
    if !file.is_test() {
        for (i, line) in file.product_lines() {
            let code = line.split("//").next().unwrap_or(line);
            if code.contains(".unwrap()") && !file.path.starts_with("xtask") {
                faults.push(format!("{name}:{i}: unwrap outside tests; say why with expect"));
            }
        }
    }
    faults
}

const FORBIDDEN: &[&str] = &["todo!", "unimplemented!", "dbg!(", "#[ignore"];

/// Prints, and does not judge, the longest files and functions.
pub(crate) fn print_longest(files: &[File]) {
    let mut sizes: Vec<_> = files
        .iter()
        .filter(|f| !f.is_test())
        .map(|f| (f.product_lines().count(), f.path.display().to_string()))
        .collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    println!("longest files:");
    for (lines, path) in sizes.iter().take(8) {
        println!("  {lines:>5}  {path}");
    }
    let mut functions: Vec<_> = files.iter().filter(|f| !f.is_test()).flat_map(functions).collect();
    functions.sort_unstable_by(|a, b| b.cmp(a));
    println!("longest functions:");
    for (lines, place) in functions.iter().take(8) {
        println!("  {lines:>5}  {place}");
    }
}

/// Length and place of each function, found by the indentation that rustfmt gives.
fn functions(file: &File) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut open: Option<(usize, usize, String)> = None;
    for (i, line) in file.product_lines() {
        let indent = line.len() - line.trim_start().len();
        if let Some((start, depth, place)) = &open {
            if indent == *depth && line.trim_start().starts_with('}') {
                found.push((i - start + 1, place.clone()));
                open = None;
            }
        } else if let Some(name) = function_name(line.trim_start())
            && !line.trim_end().ends_with(';')
            && !line.trim_end().ends_with('}')
        {
            open = Some((i, indent, format!("{}:{i} {name}", file.path.display())));
        }
    }
    found
}

fn function_name(line: &str) -> Option<&str> {
    let words = ["pub(crate) ", "pub(super) ", "pub ", "const ", "async ", "unsafe "];
    let mut rest = line;
    while let Some(shorter) = words.iter().find_map(|w| rest.strip_prefix(w)) {
        rest = shorter;
    }
    rest.strip_prefix("fn ")?.split(['(', '<']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.into(), text: text.into() }
    }

    #[test]
    fn unwrap_is_a_fault_before_the_tests_and_not_in_them() {
        let text =
            "//! x\nfn a() { b.unwrap(); }\n#[cfg(test)]\nmod tests { fn c() { d.unwrap(); } }\n";
        assert_eq!(
            faults(&file("crates/a/src/lib.rs", text)),
            ["crates/a/src/lib.rs:2: unwrap outside tests; say why with expect"]
        );
        assert_eq!(faults(&file("crates/a/src/b/tests.rs", text)), [""; 0]);
    }

    #[test]
    fn docs_names_and_forbidden_words_are_checked() {
        assert_eq!(faults(&file("crates/a/src/util.rs", "fn a() { todo!() }\n")).len(), 3);
    }

    #[test]
    fn a_function_is_measured_to_its_closing_brace() {
        let text = "//! x\nimpl A {\n    pub async fn long<T>(\n        a: T,\n    ) {\n        b\n    }\n}\n";
        assert_eq!(functions(&file("a.rs", text)), [(5, "a.rs:3 long".to_owned())]);
    }
}

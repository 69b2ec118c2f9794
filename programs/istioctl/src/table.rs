//! Tables as istioctl prints them: columns that line up, three spaces between them.
//!
//! In: a heading and rows of cells; out: text. A cell may have several lines.

/// Spaces between two columns.
const GAP: usize = 3;

pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    columns: usize,
}

impl Table {
    pub(crate) fn new<'a>(heading: impl IntoIterator<Item = &'a str>) -> Self {
        let heading: Vec<String> = heading.into_iter().map(str::to_owned).collect();
        let columns = heading.len();
        Self { rows: vec![heading], columns }
    }

    /// Adds a row; missing cells are empty, surplus ones are dropped.
    pub(crate) fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let mut row: Vec<String> = cells.into_iter().map(Into::into).take(self.columns).collect();
        row.resize(self.columns, String::new());
        self.rows.push(row);
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let width = |column: usize| {
            let cells = self.rows.iter().flat_map(|row| row[column].lines());
            cells.map(|line| line.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns).map(width).collect();
        for row in &self.rows {
            let height = row.iter().map(|cell| cell.lines().count()).max().unwrap_or(0).max(1);
            for line in 0..height {
                let mut text = String::new();
                for (cell, width) in row.iter().zip(&widths) {
                    let part = cell.lines().nth(line).unwrap_or_default();
                    text.push_str(&format!("{part:<0$}", width + GAP));
                }
                writeln!(f, "{}", text.trim_end())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn columns_line_up_and_lines_do_not_end_in_spaces() {
        let mut table = Table::new(["NAME", "STATE", ""]);
        table.row(["a-long-name", "ü", "x"]);
        table.row(["b", "two\nlines"]);
        let wanted = "\
NAME          STATE
a-long-name   ü       x
b             two
              lines
";
        assert_eq!(table.to_string(), wanted);
    }
}

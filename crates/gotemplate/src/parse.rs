//! Tokens to trees: text, actions, blocks and the definitions among them.
//!
//! Every template of one text comes out, or the first mistake with its line. Names of functions
//! and variables are checked here, as Go does, so a rendering cannot meet an unknown one.

mod pipeline;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::Error;
use crate::lex::{self, Kind, Token, Word};
use crate::limit::DEEPEST_TEXT;
use crate::literal::unquote;
use crate::node::{Branch, Call, Node, Tree};

/// The templates of `text`: the one called `name`, and what it defines.
pub(crate) fn parse(
    name: &str,
    text: &str,
    knows: &dyn Fn(&str) -> bool,
) -> Result<BTreeMap<String, Tree>, Error> {
    let mut parser = Parser {
        file: name.into(),
        text: text.into(),
        tokens: lex::tokens(text),
        next: 0,
        furthest: 0,
        scope: Scope::default(),
        depth: 0,
        action_line: None,
        knows,
        trees: BTreeMap::new(),
    };
    let parsed = parser.top().and_then(|nodes| parser.add(name.to_owned(), nodes));
    match parsed {
        Ok(()) => Ok(parser.trees),
        Err(problem) => {
            let line = parser.tokens.get(parser.furthest).map_or(1, |token| token.line);
            Err(Error::Parse { template: name.to_owned(), line, problem })
        }
    }
}

struct Parser<'t> {
    file: Arc<str>,
    text: Arc<str>,
    tokens: Vec<Token<'t>>,
    next: usize,
    /// The last token looked at: its line is the line of an error.
    furthest: usize,
    scope: Scope,
    depth: usize,
    action_line: Option<usize>,
    knows: &'t dyn Fn(&str) -> bool,
    trees: BTreeMap<String, Tree>,
}

/// What a definition starts anew: its variables, and the loops around it.
struct Scope {
    variables: Vec<String>,
    loops: usize,
}

impl Default for Scope {
    fn default() -> Self {
        Self { variables: vec!["$".to_owned()], loops: 0 }
    }
}

type Parsed<T> = Result<T, String>;

/// How a list of nodes ended.
enum Ending {
    End,
    Else,
    /// `else if` or `else with`, whose word is still to be read.
    ElseThen(Word),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    If,
    With,
    Range,
}

impl Block {
    fn name(self) -> &'static str {
        match self {
            Self::If => "if",
            Self::With => "with",
            Self::Range => "range",
        }
    }
}

enum Item {
    Node(Node),
    Ending(Ending),
}

impl<'t> Parser<'t> {
    fn peek(&mut self) -> &Token<'t> {
        let at = self.next.min(self.tokens.len() - 1);
        self.furthest = self.furthest.max(at);
        &self.tokens[at]
    }

    fn take(&mut self) -> Token<'t> {
        let token = self.peek().clone();
        self.next += 1;
        token
    }

    fn back(&mut self) {
        self.next -= 1;
    }

    fn take_word(&mut self) -> Token<'t> {
        self.skip_space();
        self.take()
    }

    fn peek_word(&mut self) -> &Token<'t> {
        self.skip_space();
        self.peek()
    }

    fn skip_space(&mut self) {
        while self.peek().kind == Kind::Space {
            self.next += 1;
        }
    }

    fn expect(&mut self, kind: Kind, context: &str) -> Parsed<Token<'t>> {
        let token = self.take_word();
        if token.kind == kind { Ok(token) } else { Err(self.unexpected(&token, context)) }
    }

    fn unexpected(&self, token: &Token<'_>, context: &str) -> String {
        if token.kind != Kind::Error {
            return format!("unexpected {token} in {context}");
        }
        match self.action_line {
            Some(line) if line != token.line => {
                let joint = if token.text.ends_with(" action") { "" } else { " in action" };
                format!("{token}{joint} started at {}:{line}", self.file)
            }
            _ => token.to_string(),
        }
    }

    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= DEEPEST_TEXT {
            return Err(format!("nested deeper than {DEEPEST_TEXT} levels"));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// The text to its end; definitions are allowed here only.
    fn top(&mut self) -> Parsed<Vec<Node>> {
        let mut nodes = Vec::new();
        while self.peek().kind != Kind::End {
            if self.peek().kind == Kind::LeftDelim {
                let before = self.next;
                self.take();
                if self.peek_word().kind == Kind::Word(Word::Define) {
                    self.take();
                    self.definition()?;
                    continue;
                }
                self.next = before;
            }
            match self.item()? {
                Item::Node(node) => nodes.push(node),
                Item::Ending(Ending::End) => return Err("unexpected {{end}}".to_owned()),
                Item::Ending(_) => return Err("unexpected {{else}}".to_owned()),
            }
        }
        Ok(nodes)
    }

    fn definition(&mut self) -> Parsed<()> {
        let context = "define clause";
        let token = self.take_word();
        let name = self.template_name(&token, context)?;
        self.expect(Kind::RightDelim, context)?;
        let nodes = self.own_scope(context)?;
        self.add(name, nodes)
    }

    /// The body of a definition, which sees no variables of its surroundings.
    fn own_scope(&mut self, context: &str) -> Parsed<Vec<Node>> {
        let outer = std::mem::take(&mut self.scope);
        let list = self.deeper(Self::list);
        self.scope = outer;
        match list? {
            (nodes, Ending::End) => Ok(nodes),
            _ => Err(format!("unexpected {{{{else}}}} in {context}")),
        }
    }

    fn add(&mut self, name: String, nodes: Vec<Node>) -> Parsed<()> {
        let (file, text) = (self.file.clone(), self.text.clone());
        let tree = Tree { name: name.clone(), file, text, nodes };
        match self.trees.get(&name) {
            Some(old) if !old.is_empty() && !tree.is_empty() => {
                let name = crate::format::quote::double(&name);
                return Err(format!("template: multiple definition of template {name}"));
            }
            Some(old) if !old.is_empty() => {}
            _ => {
                self.trees.insert(name, tree);
            }
        }
        Ok(())
    }

    fn list(&mut self) -> Parsed<(Vec<Node>, Ending)> {
        let mut nodes = Vec::new();
        while self.peek_word().kind != Kind::End {
            match self.item()? {
                Item::Node(node) => nodes.push(node),
                Item::Ending(ending) => return Ok((nodes, ending)),
            }
        }
        Err("unexpected EOF".to_owned())
    }

    fn item(&mut self) -> Parsed<Item> {
        let token = self.take_word();
        match token.kind {
            Kind::Text => Ok(Item::Node(Node::Text(token.text.into_owned()))),
            Kind::LeftDelim => {
                self.action_line = Some(token.line);
                let item = self.action()?;
                self.action_line = None;
                Ok(item)
            }
            _ => Err(self.unexpected(&token, "input")),
        }
    }

    fn action(&mut self) -> Parsed<Item> {
        let token = self.take_word();
        let Kind::Word(word) = token.kind else {
            self.back();
            let pipe = self.pipeline("command", Kind::RightDelim)?;
            return Ok(Item::Node(Node::Action(pipe)));
        };
        Ok(Item::Node(match word {
            Word::If => Node::If(self.branch(Block::If)?),
            Word::With => Node::With(self.branch(Block::With)?),
            Word::Range => Node::Range(self.branch(Block::Range)?),
            Word::Block => self.block()?,
            Word::Template => self.template()?,
            Word::Break => self.leave("break", Node::Break)?,
            Word::Continue => self.leave("continue", Node::Continue)?,
            Word::End => {
                self.expect(Kind::RightDelim, "end")?;
                return Ok(Item::Ending(Ending::End));
            }
            Word::Else => return Ok(Item::Ending(self.otherwise()?)),
            Word::Define => return Err(self.unexpected(&token, "command")),
        }))
    }

    fn leave(&mut self, word: &str, node: Node) -> Parsed<Node> {
        self.expect(Kind::RightDelim, &format!("{{{{{word}}}}}"))?;
        if self.scope.loops == 0 {
            return Err(format!("{{{{{word}}}}} outside {{{{range}}}}"));
        }
        Ok(node)
    }

    fn otherwise(&mut self) -> Parsed<Ending> {
        if let Kind::Word(word @ (Word::If | Word::With)) = self.peek_word().kind {
            return Ok(Ending::ElseThen(word));
        }
        self.expect(Kind::RightDelim, "else")?;
        Ok(Ending::Else)
    }

    fn branch(&mut self, block: Block) -> Parsed<Branch> {
        self.deeper(|parser| {
            let variables = parser.scope.variables.len();
            let branch = parser.branch_inside(block);
            parser.scope.variables.truncate(variables);
            branch
        })
    }

    fn branch_inside(&mut self, block: Block) -> Parsed<Branch> {
        let pipe = self.pipeline(block.name(), Kind::RightDelim)?;
        let loops = self.scope.loops;
        self.scope.loops += usize::from(block == Block::Range);
        let (body, ending) = self.list()?;
        self.scope.loops = loops;
        let otherwise = match ending {
            Ending::End => Vec::new(),
            Ending::ElseThen(Word::If) if block == Block::If => {
                self.take_word();
                vec![Node::If(self.branch(Block::If)?)]
            }
            Ending::ElseThen(Word::With) if block == Block::With => {
                self.take_word();
                vec![Node::With(self.branch(Block::With)?)]
            }
            Ending::Else | Ending::ElseThen(_) => match self.list()? {
                (nodes, Ending::End) => nodes,
                _ => return Err("expected end; found {{else}}".to_owned()),
            },
        };
        Ok(Branch { pipe, body, otherwise })
    }

    fn block(&mut self) -> Parsed<Node> {
        let context = "block clause";
        let token = self.take_word();
        let name = self.template_name(&token, context)?;
        let pipe = self.pipeline(context, Kind::RightDelim)?;
        let nodes = self.own_scope(context)?;
        self.add(name.clone(), nodes)?;
        Ok(Node::Template(Call { pos: token.pos, name, pipe: Some(pipe) }))
    }

    fn template(&mut self) -> Parsed<Node> {
        let context = "template clause";
        let token = self.take_word();
        let name = self.template_name(&token, context)?;
        let pipe = if self.take_word().kind == Kind::RightDelim {
            None
        } else {
            self.back();
            Some(self.pipeline(context, Kind::RightDelim)?)
        };
        Ok(Node::Template(Call { pos: token.pos, name, pipe }))
    }

    fn template_name(&mut self, token: &Token<'_>, context: &str) -> Parsed<String> {
        match token.kind {
            Kind::Quoted | Kind::RawQuoted => {
                unquote(&token.text).ok_or_else(|| "invalid syntax".to_owned())
            }
            _ => Err(self.unexpected(token, context)),
        }
    }
}

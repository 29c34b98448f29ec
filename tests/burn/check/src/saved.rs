//! What a whole saved module (`torch.save(model)`) says about itself: classes and attributes, the tensors left aside.
//!
//! Burn's own reader gives the state dict of such a file and drops the rest, but heads, strides and activations are in the
//! rest. Nothing named in the pickle is looked up: calls become inert objects.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::Read;
use std::path::Path;
use std::rc::Rc;

use crate::case::Problem;

#[derive(Clone, Debug)]
pub enum Value {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    Tuple(Vec<Value>),
    List(Rc<RefCell<Vec<Value>>>),
    Dict(Rc<RefCell<Vec<(Value, Value)>>>),
    Global(String),
    /// What a call or an instance would be: its class, its state, its entries.
    Object(Rc<Object>),
    Mark,
}

#[derive(Debug)]
pub struct Object {
    class: String,
    state: RefCell<Option<Value>>,
    entries: RefCell<Vec<(Value, Value)>>,
}

/// One module of the saved tree.
#[derive(Clone, Debug)]
pub struct Saved {
    /// The class's own name, such as `Conv2d`.
    pub class: String,
    attributes: Vec<(String, Value)>,
    pub children: Vec<(String, Saved)>,
}

impl Saved {
    /// `None` where the file holds a state dict.
    pub fn open(path: &Path) -> Result<Option<Self>, Problem> {
        let mut archive = zip::ZipArchive::new(std::fs::File::open(path)?)?;
        let name = archive
            .file_names()
            .filter_map(Result::ok)
            .find(|name| name.ends_with("data.pkl"))
            .map(|name| name.into_owned())
            .ok_or("no data.pkl in the archive")?;
        let mut pickle = vec![];
        archive.by_name(&name)?.read_to_end(&mut pickle)?;
        Ok(module(&unpickle(&pickle)?))
    }

    pub fn from_parts(class: &str, attributes: Vec<(String, Value)>, children: Vec<(String, Saved)>) -> Self {
        Self { class: class.into(), attributes, children }
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    pub fn number(&self, name: &str) -> Result<usize, Problem> {
        match self.get(name) {
            Some(Value::Int(i)) => Ok(*i as usize),
            other => Err(format!("{}.{name} is {other:?}, not a number", self.class).into()),
        }
    }

    pub fn float(&self, name: &str) -> Result<f64, Problem> {
        match self.get(name) {
            Some(Value::Float(x)) => Ok(*x),
            other => Err(format!("{}.{name} is {other:?}, not a float", self.class).into()),
        }
    }

    pub fn flag(&self, name: &str) -> bool {
        matches!(self.get(name), Some(Value::Bool(true)))
    }

    /// A tuple of as many numbers as there are dimensions.
    pub fn sizes<const N: usize>(&self, name: &str) -> Result<[usize; N], Problem> {
        let wrong = || format!("{}.{name} is not {N} numbers", self.class);
        let Some(Value::Tuple(items)) = self.get(name) else { return Err(wrong().into()) };
        let number = |item: &Value| if let Value::Int(i) = item { Some(*i as usize) } else { None };
        let numbers: Option<Vec<usize>> = items.iter().map(number).collect();
        Ok(numbers.and_then(|numbers| numbers.try_into().ok()).ok_or_else(wrong)?)
    }

    /// The activation of a transformer layer: a function's name, or the class of an instance.
    pub fn function(&self, name: &str) -> Option<String> {
        match self.get(name)? {
            Value::Global(path) => path.rsplit('.').next().map(str::to_string),
            Value::Object(object) => Some(object.class.rsplit('.').next()?.to_lowercase()),
            _ => None,
        }
    }

    pub fn child(&self, name: &str) -> Option<&Saved> {
        self.children.iter().find(|(key, _)| key == name).map(|(_, child)| child)
    }
}

fn module(value: &Value) -> Option<Saved> {
    let Value::Object(object) = value else { return None };
    let state = object.state.borrow();
    let Some(Value::Dict(state)) = state.as_ref() else { return None };
    let (mut attributes, mut children, mut is_module) = (vec![], vec![], false);
    for (key, value) in state.borrow().iter() {
        let Value::Text(key) = key else { continue };
        if key != "_modules" {
            attributes.push((key.clone(), value.clone()));
            continue;
        }
        is_module = true;
        for (name, child) in entries(value) {
            // A child may stand there as None; a plain attribute may be a module too (an activation).
            if let (Value::Text(name), Some(child)) = (name, module(&child)) {
                children.push((name, child));
            }
        }
    }
    let class = object.class.rsplit('.').next().unwrap_or_default().to_string();
    is_module.then_some(Saved { class, attributes, children })
}

fn entries(value: &Value) -> Vec<(Value, Value)> {
    match value {
        Value::Dict(entries) => entries.borrow().clone(),
        Value::Object(object) => object.entries.borrow().clone(),
        _ => vec![],
    }
}

struct Machine<'a> {
    data: &'a [u8],
    at: usize,
    stack: Vec<Value>,
    memo: HashMap<usize, Value>,
}

fn unpickle(data: &[u8]) -> Result<Value, Problem> {
    let mut machine = Machine { data, at: 0, stack: vec![], memo: HashMap::new() };
    while machine.step()? {}
    machine.pop()
}

impl Machine<'_> {
    fn pop(&mut self) -> Result<Value, Problem> {
        self.stack.pop().ok_or_else(|| "the pickle pops an empty stack".into())
    }

    fn bytes(&mut self, n: usize) -> Result<&[u8], Problem> {
        let end = self.at.checked_add(n).filter(|end| *end <= self.data.len()).ok_or("the pickle is cut off")?;
        let found = &self.data[self.at..end];
        self.at = end;
        Ok(found)
    }

    fn number(&mut self, n: usize) -> Result<usize, Problem> {
        Ok(self.bytes(n)?.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
    }

    fn text(&mut self, n: usize) -> Result<String, Problem> {
        Ok(String::from_utf8(self.bytes(n)?.to_vec())?)
    }

    fn line(&mut self) -> Result<String, Problem> {
        let n = self.data[self.at..].iter().position(|byte| *byte == b'\n').ok_or("the pickle is cut off")?;
        let line = self.text(n)?;
        self.at += 1;
        Ok(line)
    }

    fn above_mark(&mut self) -> Result<Vec<Value>, Problem> {
        let mark = self.stack.iter().rposition(|value| matches!(value, Value::Mark)).ok_or("no mark on the stack")?;
        let items = self.stack.split_off(mark + 1);
        self.stack.pop();
        Ok(items)
    }

    fn tuple(&mut self, n: usize) -> Result<(), Problem> {
        let from = self.stack.len().checked_sub(n).ok_or("the pickle pops an empty stack")?;
        let items = self.stack.split_off(from);
        self.stack.push(Value::Tuple(items));
        Ok(())
    }

    fn call(&mut self) -> Result<(), Problem> {
        self.pop()?;
        let class = if let Value::Global(path) = self.pop()? { path } else { String::new() };
        let object = Object { class, state: RefCell::new(None), entries: RefCell::new(vec![]) };
        self.stack.push(Value::Object(Rc::new(object)));
        Ok(())
    }

    fn set(&mut self, items: Vec<Value>) {
        let mut items = items.into_iter();
        while let (Some(key), Some(value)) = (items.next(), items.next()) {
            match self.stack.last() {
                Some(Value::Dict(entries)) => entries.borrow_mut().push((key, value)),
                Some(Value::Object(object)) => object.entries.borrow_mut().push((key, value)),
                _ => {}
            }
        }
    }

    /// One instruction; false at the end.
    fn step(&mut self) -> Result<bool, Problem> {
        let op = self.bytes(1)?[0];
        let value = match op {
            b'.' => return Ok(false),
            0x80 => return self.bytes(1).map(|_| true),
            0x95 => return self.bytes(8).map(|_| true),
            b'(' => Value::Mark,
            b'N' => Value::None,
            0x88 => Value::Bool(true),
            0x89 => Value::Bool(false),
            b'K' => Value::Int(self.number(1)? as i64),
            b'M' => Value::Int(self.number(2)? as i64),
            b'J' => Value::Int(i64::from(self.number(4)? as u32 as i32)),
            0x8a => {
                let n = self.number(1)?;
                let shift = 64 - 8 * n.clamp(1, 8) as u32;
                Value::Int(((self.number(n)? as i64) << shift) >> shift)
            }
            b'G' => Value::Float(f64::from_be_bytes(self.bytes(8)?.try_into()?)),
            b'X' => {
                let n = self.number(4)?;
                Value::Text(self.text(n)?)
            }
            0x8c => {
                let n = self.number(1)?;
                Value::Text(self.text(n)?)
            }
            b'}' => Value::Dict(Rc::default()),
            b']' => Value::List(Rc::default()),
            0x8f => Value::List(Rc::default()),
            b')' => Value::Tuple(vec![]),
            b'c' => Value::Global(format!("{}.{}", self.line()?, self.line()?)),
            0x93 => match (self.pop()?, self.pop()?) {
                (Value::Text(name), Value::Text(module)) => Value::Global(format!("{module}.{name}")),
                _ => return Err("a name that is no text".into()),
            },
            b'h' | b'j' => {
                let key = self.number(if op == b'h' { 1 } else { 4 })?;
                self.memo.get(&key).cloned().ok_or("an unknown memo")?
            }
            _ => return self.act(op).map(|()| true),
        };
        self.stack.push(value);
        Ok(true)
    }

    /// Instructions that take from the stack.
    fn act(&mut self, op: u8) -> Result<(), Problem> {
        match op {
            b'q' | b'r' | 0x94 => {
                let key = match op {
                    b'q' => self.number(1)?,
                    b'r' => self.number(4)?,
                    _ => self.memo.len(),
                };
                let top = self.stack.last().cloned().ok_or("nothing to remember")?;
                self.memo.insert(key, top);
            }
            b'0' => drop(self.pop()?),
            0x85 => self.tuple(1)?,
            0x86 => self.tuple(2)?,
            0x87 => self.tuple(3)?,
            b't' => {
                let items = self.above_mark()?;
                self.stack.push(Value::Tuple(items));
            }
            b'a' | b'e' | 0x90 => {
                let items = if op == b'a' { vec![self.pop()?] } else { self.above_mark()? };
                if let Some(Value::List(list)) = self.stack.last() {
                    list.borrow_mut().extend(items);
                }
            }
            b's' => {
                let value = self.pop()?;
                let key = self.pop()?;
                self.set(vec![key, value]);
            }
            b'u' => {
                let items = self.above_mark()?;
                self.set(items);
            }
            b'R' | 0x81 => self.call()?,
            b'b' => {
                let state = self.pop()?;
                if let Some(Value::Object(object)) = self.stack.last() {
                    *object.state.borrow_mut() = Some(state);
                }
            }
            b'Q' => {
                self.pop()?;
                self.stack.push(Value::None);
            }
            other => return Err(format!("the pickle has an instruction 0x{other:02x} that is not read here").into()),
        }
        Ok(())
    }
}

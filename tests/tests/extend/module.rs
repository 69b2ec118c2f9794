//! A small WebAssembly module, put together byte by byte: it adds a header with its configuration as
//! the value to every answer.

/// `proxy_on_configure` keeps the configuration, `proxy_on_response_headers` adds it as a header.
pub(crate) fn adds_header(name: &str) -> Vec<u8> {
    // Where in the module's memory things are: the header's name, where the host says that it has put
    // the configuration and how long it is, and the place that it is given for it.
    let (text, pointer, length, place) = (1024, 2048, 2052, 4096);
    let types = [kind(0, 0), kind(1, 1), kind(2, 0), kind(2, 1), kind(3, 1), kind(5, 1)];
    let import = |name: &str| [string("env"), string(name), vec![0, 5]].concat();
    let imports = [import("proxy_add_header_map_value"), import("proxy_get_buffer_bytes")];
    let functions: Vec<Vec<u8>> = [0, 1, 2, 3, 3, 4].map(|of: u8| vec![of]).into();
    let load = |at: i64| [constant(at), vec![0x28, 2, 0]].concat();
    let bodies = [
        vec![],
        constant(place),
        vec![],
        constant(1),
        // get_buffer_bytes(plugin configuration, 0, its size, pointer, length)
        [
            constant(7),
            constant(0),
            vec![0x20, 1],
            constant(pointer),
            constant(length),
            vec![0x10, 1, 0x1a],
            constant(1),
        ]
        .concat(),
        // add_header_map_value(response headers, name, value)
        [
            constant(2),
            constant(text),
            constant(name.len().try_into().unwrap()),
            load(pointer),
            load(length),
            vec![0x10, 0, 0x1a],
            constant(0),
        ]
        .concat(),
    ];
    let exports: Vec<Vec<u8>> = [
        ("memory", 2, 0),
        ("proxy_abi_version_0_2_1", 0, 2),
        ("proxy_on_memory_allocate", 0, 3),
        ("proxy_on_context_create", 0, 4),
        ("proxy_on_vm_start", 0, 5),
        ("proxy_on_configure", 0, 6),
        ("proxy_on_response_headers", 0, 7),
    ]
    .map(|(name, of, index): (&str, u8, u8)| [string(name), vec![of, index]].concat())
    .into();
    let bodies: Vec<Vec<u8>> = bodies
        .into_iter()
        .map(|body| [unsigned(body.len() + 2), vec![0], body, vec![0x0b]].concat())
        .collect();
    let data = [vec![0], constant(text), vec![0x0b], string(name)].concat();
    [
        b"\0asm\x01\0\0\0".to_vec(),
        section(1, &types),
        section(2, &imports),
        section(3, &functions),
        section(5, &[vec![0, 1]]),
        section(7, &exports),
        section(10, &bodies),
        section(11, &[data]),
    ]
    .concat()
}

/// A function of so many integers that gives so many.
fn kind(takes: usize, gives: usize) -> Vec<u8> {
    let integers = |count: usize| [unsigned(count), vec![0x7f; count]].concat();
    [vec![0x60], integers(takes), integers(gives)].concat()
}

fn section(id: u8, items: &[Vec<u8>]) -> Vec<u8> {
    let body = [unsigned(items.len()), items.concat()].concat();
    [vec![id], unsigned(body.len()), body].concat()
}

fn string(text: &str) -> Vec<u8> {
    [unsigned(text.len()), text.as_bytes().to_vec()].concat()
}

fn constant(value: i64) -> Vec<u8> {
    let mut out = vec![0x41];
    let mut rest = value;
    loop {
        let byte = u8::try_from(rest & 0x7f).unwrap();
        rest >>= 7;
        if rest == 0 && byte & 0x40 == 0 {
            out.push(byte);
            return out;
        }
        out.push(byte | 0x80);
    }
}

fn unsigned(value: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = value;
    loop {
        let byte = u8::try_from(rest & 0x7f).unwrap();
        rest >>= 7;
        if rest == 0 {
            out.push(byte);
            return out;
        }
        out.push(byte | 0x80);
    }
}

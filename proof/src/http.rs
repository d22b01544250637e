//! An HTTP/1.1 client of the plainest kind: one request after the other, the answer's bytes as they came.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};

use crate::wait;

/// A connection to a server, opened anew when needed.
pub struct Http {
    address: SocketAddr,
    connection: Option<BufReader<TcpStream>>,
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Header names in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// The body as it came.
    pub body: String,
}

impl Response {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Http {
    /// For this server; nothing is connected yet.
    pub fn new(address: SocketAddr) -> Http {
        Http { address, connection: None }
    }

    /// Closes the connection; the next request opens another one.
    pub fn reconnect(&mut self) {
        self.connection = None;
    }

    /// Gets what is at a path.
    pub fn get(&mut self, path: &str) -> io::Result<Response> {
        self.exchange(&format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address))
    }

    /// Posts a JSON body to `/mcp` and reads the whole answer. A failure may have come before or after the server acted.
    pub fn post(&mut self, headers: &[(&str, &str)], body: &str) -> io::Result<Response> {
        let mut request = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nAccept: application/json\r\nContent-Length: {}\r\n",
            self.address,
            body.len()
        );
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str("\r\n");
        request.push_str(body);
        self.exchange(&request)
    }

    fn exchange(&mut self, request: &str) -> io::Result<Response> {
        let mut connection = match self.connection.take() {
            Some(open) => open,
            None => connect(self.address)?,
        };
        connection.get_mut().write_all(request.as_bytes())?;
        let response = read(&mut connection)?;
        self.connection = Some(connection);
        Ok(response)
    }
}

fn connect(address: SocketAddr) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(wait::DEADLINE))?;
    Ok(BufReader::new(stream))
}

fn read(connection: &mut impl BufRead) -> io::Result<Response> {
    let first = line(connection)?;
    let status = first.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(|| broken(&first))?;
    let mut headers = Vec::new();
    loop {
        let line = line(connection)?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut response = Response { status, headers, body: String::new() };
    let mut body = Vec::new();
    if let Some(length) = response.header("content-length") {
        body.resize(length.parse().map_err(|_| broken(length))?, 0);
        connection.read_exact(&mut body)?;
    } else if response.header("transfer-encoding") == Some("chunked") {
        loop {
            let size = line(connection)?;
            let size = usize::from_str_radix(&size, 16).map_err(|_| broken(&size))?;
            let start = body.len();
            body.resize(start + size, 0);
            connection.read_exact(&mut body[start..])?;
            line(connection)?;
            if size == 0 {
                break;
            }
        }
    }
    response.body = String::from_utf8(body).map_err(|error| broken(&error.to_string()))?;
    Ok(response)
}

fn line(connection: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    if connection.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not HTTP as expected: {what}"))
}

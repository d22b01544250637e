//! A server of 2025-11-25 without tasks that asks for one of everything, written in the language of the shell, and says what it got.

/// Reads messages, one a line, and asks its form when a tool is called, unless it has a result already.
pub const SCRIPT: &str = r#"
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$1" "$2"; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\("[^"]*"\|[0-9]*\).*/\1/p')
  case "$line" in
    *'"method":"initialize"'*)
      answer "$id" '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"asker","version":"1"}}' ;;
    *'"method":"tools/list"'*)
      answer "$id" '{"tools":[{"name":"ask","inputSchema":{"type":"object"}}]}' ;;
    *'"method":"tools/call"'*)
      call=$id
      [ -z "$FLOOD" ] || { yes "$FLOOD" | head -n 50000; : > "$FLOODED"; answer "$id" '{"content":[]}'; continue; }
      [ -z "$RESULT" ] || { answer "$id" "$RESULT"; continue; }
      printf '{"jsonrpc":"2.0","id":"form","method":"elicitation/create","params":%s}\n' "$FORM" ;;
    *'"id":"form"'*)
      got=$(printf '%s' "$line" | sed 's/.*"result"://; s/}$//; s/"/\\"/g')
      answer "$call" "{\"content\":[{\"type\":\"text\",\"text\":\"got $got\"}]}" ;;
    *'"method":"notifications/'*) ;;
    *'"method":'*)
      printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}\n' "$id" ;;
  esac
done
"#;

/// A form with a field of each kind.
pub const FORM: &str = r#"{"mode":"form","message":"One of each","requestedSchema":{"type":"object","required":["name","size","token"],"properties":{
"name":{"type":"string","title":"Your name","minLength":2},
"size":{"type":"integer","title":"Size","minimum":1,"maximum":9,"default":3},
"token":{"type":"string","title":"Token"},
"sure":{"type":"boolean","title":"Sure"},
"colour":{"type":"string","title":"Colour","oneOf":[{"const":"r","title":"Red"},{"const":"g","title":"Green"}],"default":"g"},
"extras":{"type":"array","title":"Extras","items":{"anyOf":[{"const":"a","title":"Anchovies"},{"const":"b","title":"Basil"}]}},
"note":{"type":"string","title":"Note"}}}}"#;

/// A URL to be visited.
pub const URL: &str = r#"{"mode":"url","message":"Please log in","url":"https://login.example/start?x=1","elicitationId":"e1"}"#;

# An external authorizer over HTTP (8000) and gRPC (9000): allows what has the header
# `x-ext-authz: allow`, denies all else, and says what it was told.
import time
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import grpc


class Http(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        length = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(length).decode()
        if self.path.startswith("/slow"):
            time.sleep(3)
        allowed = self.headers.get("x-ext-authz") == "allow"
        told = [f"{self.command} {self.path}", f"body={body}"]
        for name in ("x-pre-one", "x-fixed", "x-other"):
            told.append(f"{name}={self.headers.get(name)}")
        self.send_response(200 if allowed else 403)
        self.send_header("x-ext-authz-check-result", "allowed" if allowed else "denied")
        self.send_header("x-ext-authz-check-received", " ".join(told))
        self.send_header("x-ext-hidden", "1")
        self.send_header("content-length", "0")
        self.end_headers()

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_OPTIONS = answer

    def log_message(self, *_):
        pass


def field(number, content):
    return bytes([number << 3 | 2, len(content)]) + content


def check(request, context):
    # The request is looked at as bytes: name and value of the header stand beside each other.
    at = request.find(b"x-ext-authz\x12")
    allowed = at >= 0 and request[at + 12 : at + 18] == b"\x05allow"
    # status { code }, ok_response { headers { header { key value } } }
    if not allowed:
        return field(1, b"\x08\x07")
    header = field(1, b"x-ext-up") + field(2, b"grpc")
    return field(1, b"") + field(3, field(2, field(1, header)))


class Grpc(grpc.GenericRpcHandler):
    def service(self, details):
        if details.method == "/envoy.service.auth.v3.Authorization/Check":
            return grpc.unary_unary_rpc_method_handler(check)


server = grpc.server(futures.ThreadPoolExecutor(4), handlers=[Grpc()])
server.add_insecure_port("0.0.0.0:9000")
server.start()
ThreadingHTTPServer(("0.0.0.0", 8000), Http).serve_forever()

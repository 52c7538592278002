#include "orchestrator/http/url.h"

#include "orchestrator/diag/rules/http.h"
#include "tests/support/catch.h"

namespace sweep::http {

TEST_CASE("url: an origin is scheme, host and port, however they are written") {
  const Origin plain = origin_of("http://Hub.Example/a?b#c").value();
  CHECK(plain.scheme == "http");
  CHECK(plain.host == "hub.example");
  CHECK(plain.port == "80");
  CHECK((origin_of("HTTP://u:p@hub.example:80").value() == plain));
  CHECK((origin_of("https://hub.example").value() == origin_of("https://hub.example:443/x").value()));
  CHECK(!(origin_of("https://hub.example").value() == plain));
  CHECK(!(origin_of("http://hub.example:81").value() == plain));
  CHECK(!(origin_of("http://hub.example.evil").value() == plain));
}

TEST_CASE("url: what is no address of a web server has no origin") {
  for (const char* url : {"", "x", "ftp://host", "file:///etc/passwd", "http://", "//host/a", "http://ho st/",
                          "http://host/\n", "http://host/\x01", "javascript:alert(1)"}) {
    CAPTURE(url);
    const auto origin = origin_of(url);
    REQUIRE(!origin.has_value());
    CHECK(origin.error().rule == diag::rule::http_bad_url);
  }
}

TEST_CASE("url: loopback is this machine, not a name that begins like it") {
  for (const char* url :
       {"http://localhost", "http://127.0.0.1:8000", "http://127.1.2.3", "http://[::1]:9", "http://127.1"}) {
    CAPTURE(url);
    CHECK(origin_of(url).value().is_loopback());
  }
  for (const char* url : {"http://127.0.0.1.example.com", "http://localhost.example.com", "http://10.0.0.1",
                          "http://[::2]", "http://127.example"}) {
    CAPTURE(url);
    CHECK(!origin_of(url).value().is_loopback());
  }
}

TEST_CASE("url: references are resolved against where they were found") {
  const std::string base = "https://hub.example/a/b/c?d=e";
  const auto resolved = [&](const std::string& reference) { return resolve_reference(base, reference).value(); };
  CHECK(resolved("/x/y?z") == "https://hub.example/x/y?z");
  CHECK(resolved("f") == "https://hub.example/a/b/f");
  CHECK(resolved("../f") == "https://hub.example/a/f");
  CHECK(resolved("http://other.example:81/f") == "http://other.example:81/f");
  CHECK(resolved("//other.example/f") == "https://other.example/f");
  CHECK(resolved("/with blank") == "https://hub.example/with%20blank");
  // A user and password stay with their host.
  const std::string with_password = "https://u:p@hub.example/a";
  CHECK(resolve_reference(with_password, "/x").value() == "https://u:p@hub.example/x");
  CHECK(resolve_reference(with_password, "//other.example/x").value() == "https://other.example/x");
  CHECK(resolve_reference(with_password, "https://other.example/x").value() == "https://other.example/x");
}

TEST_CASE("url: a reference to something else than a web server is refused") {
  for (const char* reference : {"", "ftp://x/y", "file:///etc/passwd", "http://", "/a\r\nX: y"}) {
    CAPTURE(reference);
    const auto resolved = resolve_reference("https://hub.example/", reference);
    REQUIRE(!resolved.has_value());
    CHECK(resolved.error().rule == diag::rule::http_bad_url);
  }
}

TEST_CASE("url: percent-encoding leaves one part, whatever it holds") {
  CHECK(percent_encoded("abc-XYZ_0.9~") == "abc-XYZ_0.9~");
  CHECK(percent_encoded("refs/pr/1") == "refs%2Fpr%2F1");
  CHECK(percent_encoded("a b?c#d&e=f%\r\n\xC3\xA9") == "a%20b%3Fc%23d%26e%3Df%25%0D%0A%C3%A9");
}

TEST_CASE("url: the path is what is between host and query") {
  CHECK(path_of("https://h/a/b%20c?d#e") == "/a/b%20c");
  CHECK(path_of("https://h") == "/");
  CHECK(path_of("::").empty());
}

TEST_CASE("url: what is shown has neither credentials nor query") {
  CHECK(display_url("https://user:secret@host:81/a?token=secret#frag") == "https://host:81/a");
  CHECK(display_url("::") == "(not a URL)");
}

}  // namespace sweep::http

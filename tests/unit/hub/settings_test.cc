#include "orchestrator/hub/settings.h"

#include <map>

#include "orchestrator/diag/rules/hub.h"
#include "tests/support/catch.h"
#include "tests/support/test_dir.h"

namespace sweep::hub {

namespace {

using Variables = std::map<std::string, std::string>;

std::optional<Settings> settings(const Variables& variables, diag::Diagnostics& diagnostics) {
  return settings_from(
      [&](const std::string& name) {
        const auto found = variables.find(name);
        return found == variables.end() ? std::optional<std::string>() : found->second;
      },
      diagnostics);
}

Settings good(const Variables& variables) {
  diag::Diagnostics diagnostics;
  auto result = settings(variables, diagnostics);
  CHECK(diagnostics.empty());
  REQUIRE(result.has_value());
  return *result;
}

diag::Diagnostic error_of(const Variables& variables) {
  diag::Diagnostics diagnostics;
  CHECK(!settings(variables, diagnostics).has_value());
  REQUIRE(diagnostics.items().size() == 1);
  return diagnostics.items().front();
}

}  // namespace

TEST_CASE("settings: without variables it is the public hub, without a token") {
  const Settings plain = good({});
  CHECK(plain.endpoint == "https://huggingface.co");
  CHECK(!plain.token.has_value());
  CHECK(!plain.head_timeout.has_value());
}

TEST_CASE("settings: slashes at the end of the endpoint go, a path stays") {
  CHECK(good({{"HF_ENDPOINT", "https://mirror.example/hf//"}}).endpoint == "https://mirror.example/hf");
  CHECK(good({{"HF_ENDPOINT", ""}}).endpoint == "https://huggingface.co");
}

TEST_CASE("settings: an endpoint that is no address of a web server is refused") {
  for (const char* endpoint :
       {"mirror", "ftp://mirror", "https://mirror?x=y", "https://mirror#x", "/", "https://a b"}) {
    CAPTURE(endpoint);
    CHECK(error_of({{"HF_ENDPOINT", endpoint}}).rule == diag::rule::hub_bad_setting);
  }
}

TEST_CASE("settings: the token is looked for in the order of huggingface_hub") {
  const test::TestDir dir;
  dir.write("path", "of-path\n");
  dir.write("home/token", "  of-home\r\n");
  dir.write("cache/huggingface/token", "of-cache");
  dir.write("user/.cache/huggingface/token", "of-user\n\n");
  Variables variables;
  const auto add = [&](const std::string& name, const std::string& value) {
    variables[name] = value;
    return good(variables).token;
  };
  CHECK(add("HOME", (dir / "user").string()) == "of-user");
  CHECK(add("XDG_CACHE_HOME", (dir / "cache").string()) == "of-cache");
  CHECK(add("HF_HOME", (dir / "home").string()) == "of-home");
  CHECK(add("HF_TOKEN_PATH", (dir / "path").string()) == "of-path");
  CHECK(add("HF_TOKEN", "of-variable") == "of-variable");
  CHECK(add("HF_TOKEN", " \n") == "of-path");
}

TEST_CASE("settings: ~ is the user's folder, and files that are not there are no error") {
  const test::TestDir dir;
  dir.write("hf/token", "t");
  CHECK(good({{"HOME", dir.path().string()}, {"HF_HOME", "~/hf"}}).token == "t");
  CHECK(!good({{"HOME", dir.path().string()}}).token.has_value());
  CHECK(!good({{"HF_TOKEN_PATH", (dir / "hf/token/x").string()}}).token.has_value());
  dir.write("empty", "\n");
  CHECK(!good({{"HF_TOKEN_PATH", (dir / "empty").string()}}).token.has_value());
}

TEST_CASE("settings: a token that would break a header, or cannot be read, is refused without being shown") {
  const test::TestDir dir;
  const auto file = dir.write("token", "hunter2\nX-Evil: y").string();
  for (const Variables& variables : {Variables{{"HF_TOKEN", "hunter2\r\nX-Evil: y"}},
                                     Variables{{"HF_TOKEN", "hunter2 x"}}, Variables{{"HF_TOKEN", "hunter2\x7f"}},
                                     Variables{{"HF_TOKEN", "hunter2\xC3\xA9"}}, Variables{{"HF_TOKEN_PATH", file}}}) {
    const auto error = error_of(variables);
    CHECK(error.rule == diag::rule::hub_bad_setting);
    CHECK(!contains(error.message + error.help, "hunter2"));
  }
  CHECK(contains(error_of({{"HF_TOKEN_PATH", file}}).message, file));
  CHECK(error_of({{"HF_TOKEN_PATH", dir.path().string()}}).rule == diag::rule::hub_bad_setting);
}

TEST_CASE("settings: a token is kept back from other machines without https, with a warning") {
  CHECK(good({{"HF_ENDPOINT", "http://127.0.0.1:8000"}, {"HF_TOKEN", "t"}}).token == "t");
  diag::Diagnostics diagnostics;
  const auto open =
      settings({{"HF_ENDPOINT", "http://user:hunter2@hub.example"}, {"HF_TOKEN", "hunter2"}}, diagnostics);
  REQUIRE(open.has_value());
  CHECK(!open->token.has_value());
  REQUIRE(diagnostics.items().size() == 1);
  CHECK(diagnostics.items()[0].rule == diag::rule::hub_token_withheld);
  CHECK(!contains(diagnostics.items()[0].message, "hunter2"));
}

TEST_CASE("settings: offline means offline") {
  for (const char* value : {"1", "on", "Yes", "TRUE"})
    CHECK(error_of({{"HF_HUB_OFFLINE", value}}).rule == diag::rule::hub_offline);
  for (const char* value : {"", "0", "no", "false"}) CHECK(good({{"HF_HUB_OFFLINE", value}}).endpoint != "");
}

TEST_CASE("settings: the timeout of header requests is a number of seconds") {
  CHECK(good({{"HF_HUB_ETAG_TIMEOUT", "10"}}).head_timeout == std::chrono::seconds(10));
  for (const char* value : {"0", "-1", "1.5", "x", "99999999999"})
    CHECK(error_of({{"HF_HUB_ETAG_TIMEOUT", value}}).rule == diag::rule::hub_bad_setting);
}

TEST_CASE("settings: everything that is wrong is reported at once") {
  diag::Diagnostics diagnostics;
  CHECK(!settings({{"HF_ENDPOINT", "x"}, {"HF_TOKEN", "a b"}, {"HF_HUB_ETAG_TIMEOUT", "x"}}, diagnostics).has_value());
  CHECK(diagnostics.error_count() == 3);
}

}  // namespace sweep::hub

// `weights pin` as people use it: the built command against a hub with HTTPS.
#include <fmt/format.h>
#include <sys/types.h>

#include <atomic>
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

#include "orchestrator/base/file.h"
#include "orchestrator/exec/capture.h"
#include "tests/support/catch.h"
#include "tests/support/hub_server.h"
#include "tests/support/test_dir.h"
#include "tests/support/tiny_model.h"
#include "tests/support/tls.h"

using namespace sweep;
using namespace sweep::test;

namespace {

using namespace std::chrono_literals;

const std::string kModel = "example-org/tiny-moe";
const std::string kCommit = "0123456789abcdef0123456789abcdef01234567";
const std::string kToken = "hf_hunter2";

// A hub with a model, an authority that vouches for it, and a place to work in.
class Site {
 public:
  explicit Site(HubServer::Intercept intercept = {}, const ServerCertificate& certificate = {}) {
    std::filesystem::create_directory(model_dir());
    write_tiny_model(model_dir(), {.shards = 12});
    ca_file_ = dir_.write("ca.pem", authority_.pem()).string();
    server_ = std::make_unique<HubServer>(HubModel{.files = read_model(model_dir()),
                                                   .branches = {{"main", kCommit}},
                                                   .former_name = "old-org/tiny-moe",
                                                   .token = kToken},
                                          std::move(intercept), authority_.wires(certificate));
  }

  std::filesystem::path model_dir() const { return dir_ / "model"; }
  std::filesystem::path pin_file() const { return dir_ / "pin.json"; }
  const TestDir& dir() const { return dir_; }
  const HubServer& server() const { return *server_; }

  exec::CommandSpec command(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {SWEEPCTL_PROGRAMS "/sweepctl", "weights"});
    return {.argv = std::move(arguments),
            .environment = {{"HF_ENDPOINT", server_->url() + "/"},
                            {"HF_TOKEN", kToken},
                            {"HF_HOME", (dir_ / "hf").string()},
                            {"GITHUB_ACTIONS", ""}},
            .output = dir_ / "output.txt",
            .unset = {"HF_TOKEN_PATH", "HF_HUB_OFFLINE", "HF_HUB_ETAG_TIMEOUT"}};
  }

  exec::Captured run(std::vector<std::string> arguments,
                     const std::vector<std::pair<std::string, std::string>>& environment = {}) const {
    exec::CommandSpec spec = command(std::move(arguments));
    for (const auto& [name, value] : environment) {
      std::erase_if(spec.environment,
                    [&, &replaced = name](const auto& variable) { return variable.first == replaced; });
      spec.environment.emplace_back(name, value);
    }
    auto captured = exec::capture(spec, "", {.time = 2min}, {});
    REQUIRE(captured.has_value());
    INFO(captured->errors);
    // Whatever happens, the token is nobody's business.
    CHECK(!contains(captured->output + captured->errors, kToken));
    return std::move(*captured);
  }

  // `weights pin MODEL@COMMIT --output FILE`, with the authority.
  exec::Captured pin(const std::vector<std::string>& more = {},
                     const std::vector<std::pair<std::string, std::string>>& environment = {}) const {
    std::vector<std::string> arguments = {"pin",      kModel + "@" + kCommit, "--ca-file", ca_file_,
                                          "--output", pin_file().string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(std::move(arguments), environment);
  }

  bool has_pin() const { return std::filesystem::exists(pin_file()); }

 private:
  TestAuthority authority_;
  TestDir dir_;
  std::string ca_file_;
  std::unique_ptr<HubServer> server_;
};

// Answers what `part` of an address asks for.
HubServer::Intercept on(const std::string& part, HttpServer::Script script) {
  return [part, script = std::move(script)](const HttpRequest& request, Reply& reply) {
    if (!contains(request.target, part)) return false;
    script(request, reply);
    return true;
  };
}

}  // namespace

TEST_CASE("weights pin: what was pinned from the hub verifies, until a byte is flipped") {
  const Site site;
  const auto pinned = site.pin();
  INFO(pinned.errors);
  CHECK(pinned.status.code == 0);
  CHECK(contains(pinned.output, "15 files"));
  CHECK(contains(pinned.output, kModel + " at " + kCommit));
  REQUIRE(site.has_pin());
  const std::string first = site.dir().read("pin.json");
  const auto again = site.pin({"-q"});
  CHECK(again.status.code == 0);
  CHECK(again.errors.empty());
  CHECK(site.dir().read("pin.json") == first);
  std::string other = first;
  other.replace(other.find("\"size\": ") + 8, 1, "9");
  site.dir().write("pin.json", other);
  CHECK(contains(site.pin().errors, "hub/former-pin"));
  CHECK(site.dir().read("pin.json") == first);

  const std::vector<std::string> verify = {"verify", site.model_dir().string(), "--pin", site.pin_file().string()};
  const auto good = site.run(verify);
  INFO(good.errors);
  CHECK(good.status.code == 0);

  const std::string shard = "model/" + shard_name(7, 12);
  std::string bytes = site.dir().read(shard);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  site.dir().write(shard, bytes);
  const auto flipped = site.run(verify);
  CHECK(flipped.status.code == 1);
  CHECK(contains(flipped.errors, "weights/hash-mismatch"));
  CHECK(contains(flipped.errors, shard_name(7, 12)));
}

TEST_CASE("weights pin: standard output is the pin, or a summary in JSON of one that went to a file") {
  const Site site;
  const auto file = site.pin({"--format", "json", "-q"});
  CHECK(file.errors.empty());
  const auto summary = nlohmann::json::parse(file.output, nullptr, false);
  CHECK(summary["files"] == 15);
  CHECK(summary["errors"] == 0);
  CHECK(summary["revision"] == kCommit);
  CHECK(summary["index"]["tensor_count"] == 24);
  const auto direct = site.run({"pin", kModel, "--revision", kCommit, "--ca-file", (site.dir() / "ca.pem").string()});
  CHECK(direct.output == site.dir().read("pin.json"));
  const auto failed =
      site.run({"pin", "no/such@" + kCommit, "--ca-file", (site.dir() / "ca.pem").string(), "--format", "json"});
  CHECK(failed.status.code == 1);
  CHECK(nlohmann::json::parse(failed.output, nullptr, false)["diagnostics"][0]["rule"] == "hub/no-repository");
}

TEST_CASE("weights pin: a branch is refused, and resolved when asked") {
  const Site site;
  const std::string ca = (site.dir() / "ca.pem").string();
  const auto refused = site.run({"pin", kModel + "@main", "--ca-file", ca});
  CHECK(refused.status.code == 2);
  CHECK(contains(refused.errors, "hub/not-a-commit"));
  CHECK(contains(refused.errors, "--resolve"));
  CHECK(site.server().requests().empty());
  const auto resolved =
      site.run({"pin", "old-org/tiny-moe@main", "--resolve", "--ca-file", ca, "--output", site.pin_file().string()});
  INFO(resolved.errors);
  CHECK(resolved.status.code == 0);
  CHECK(contains(resolved.errors, "is commit " + kCommit));
  CHECK(contains(resolved.errors, "hub/renamed"));
  CHECK(nlohmann::json::parse(site.dir().read("pin.json"))["model"] == kModel);
}

TEST_CASE("weights pin: a certificate that is not in order is named, and nothing is sent") {
  struct Case {
    ServerCertificate certificate;
    std::string reason;
  };
  for (const Case& c : {Case{{.valid_from_s = -7200, .valid_until_s = -60}, "has expired"},
                        Case{{.names = {"DNS:other.example"}}, "is for another host"}}) {
    const Site site({}, c.certificate);
    const auto pinned = site.pin();
    CHECK(pinned.status.code == 3);
    CHECK(contains(pinned.errors, "http/tls"));
    CHECK(contains(pinned.errors, c.reason));
    CHECK(site.server().requests().empty());
    CHECK(!site.has_pin());
  }
  const Site site;
  const auto unknown = site.run({"pin", kModel + "@" + kCommit});
  CHECK(unknown.status.code == 3);
  CHECK(contains(unknown.errors, "an authority that is not known here"));
  const auto known = site.run({"pin", kModel + "@" + kCommit},
                              {{"SSL_CERT_FILE", (site.dir() / "ca.pem").string()}, {"CURL_CA_BUNDLE", ""}});
  INFO(known.errors);
  CHECK(known.status.code == 0);
}

TEST_CASE("weights pin: trouble that passes is waited for, and said") {
  std::atomic<int> count = 0;
  const Site site([&](const HttpRequest&, Reply& reply) {
    switch (count++) {
      case 0:
        reply.whole(429, "text/plain", "", "Retry-After: 0\r\n");
        return true;
      case 1:
        reply.whole(503, "text/plain", "", "Retry-After: 1\r\n");
        return true;
      case 2:
        reply.raw("HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n[{\"type\": \"file\"");
        return true;
      default:
        return false;
    }
  });
  const auto pinned = site.pin();
  INFO(pinned.errors);
  CHECK(pinned.status.code == 0);
  CHECK(contains(pinned.errors, "waiting 0.0 s, then try 2 of 5: https://127.0.0.1"));
  CHECK(contains(pinned.errors, "waiting 1.0 s, then try 3 of 5: https://127.0.0.1"));
  CHECK(contains(pinned.errors, "then try 4 of 5: "));
}

TEST_CASE("weights pin: what is wrong leaves the former pin as it was") {
  struct Case {
    HubServer::Intercept intercept;
    std::string rule;
    int code;
    std::string timeout_s = "60";
  };
  const std::vector<Case> cases = {
      {on("/tree/",
          [](const HttpRequest&, Reply& reply) {
            reply.whole(401, "application/json", R"({"error":"Access is restricted."})", "X-Error-Code: GatedRepo\r\n");
          }),
       "hub/gated", 1},
      {on("/tree/", [](const HttpRequest&, Reply& reply) { reply.whole(200, "text/html", "<html>portal</html>"); }),
       "hub/bad-reply", 3},
      {on("/tree/", [](const HttpRequest&,
                       Reply& reply) { reply.whole(302, "text/plain", "", "Location: http://127.0.0.1:9/\r\n"); }),
       "hub/bad-reply", 3},
      {on("/tree/",
          [](const HttpRequest&, Reply& reply) { reply.whole(429, "text/plain", "", "Retry-After: 7200\r\n"); }),
       "hub/rate-limited", 3},
      {on("index.json", [](const HttpRequest&,
                           Reply& reply) { reply.whole(302, "text/plain", "", "Location: http://127.0.0.1:9/\r\n"); }),
       "http/redirect", 3},
      {on("index.json", [](const HttpRequest&, Reply& reply) { reply.whole(200, "text/plain", "{}"); }),
       "hub/identity-mismatch", 1},
      {on("/tree/",
          [](const HttpRequest&, Reply& reply) {
            reply.head(200, "application/json");
            while (reply.wait(10ms) && !reply.peer_gone()) reply.piece(" ");
          }),
       "http/total-timeout", 3, "2"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.rule);
    const Site site(c.intercept);
    site.dir().write("pin.json", "before");
    const auto pinned = site.pin({"--timeout", c.timeout_s});
    INFO(pinned.errors);
    CHECK(pinned.status.code == c.code);
    CHECK(contains(pinned.errors, "[" + c.rule + "]"));
    CHECK(pinned.output.empty());
    CHECK(site.dir().read("pin.json") == "before");
  }
}

TEST_CASE("weights pin: an interrupt ends a wait at once with 130, and leaves nothing behind") {
  std::atomic<bool> asked = false;
  const Site site(on("/tree/", [&](const HttpRequest&, Reply& reply) {
    reply.whole(429, "text/plain", "", "Retry-After: 500\r\n");
    asked = true;
  }));
  auto process =
      exec::Process::start(site.command({"pin", kModel + "@" + kCommit, "--ca-file", (site.dir() / "ca.pem").string(),
                                         "--output", site.pin_file().string()}));
  REQUIRE(process.has_value());
  for (int i = 0; i < 6000 && !asked && !process->poll(); ++i) std::this_thread::sleep_for(10ms);
  REQUIRE(asked);
  ::kill(process->pid(), SIGINT);
  const auto status = process->wait(1min, {});
  REQUIRE(status.has_value());
  CHECK(status->code == 130);
  CHECK(!site.has_pin());
}

TEST_CASE("weights pin: a proxy of the environment is used, and sees neither token nor model where HTTPS is") {
  const Site site({}, {.names = {"DNS:hub.example"}});
  const int port = site.server().port();
  const HttpServer proxy([port](const HttpRequest& request, Reply& reply) {
    if (request.method != "CONNECT") return reply.whole(403, "text/plain", "only tunnels");
    reply.raw("HTTP/1.1 200 Connection established\r\n\r\n");
    reply.connect_through(port);
  });
  const std::string address = fmt::format("http://user:{}@127.0.0.1:{}", kToken, proxy.port());
  const auto tunnel =
      site.pin({}, {{"HF_ENDPOINT", "https://hub.example"}, {"https_proxy", address}, {"no_proxy", ""}});
  INFO(tunnel.errors);
  CHECK(tunnel.status.code == 0);
  REQUIRE(!proxy.requests().empty());
  for (const HttpRequest& request : proxy.requests()) {
    CHECK(request.target == "hub.example:443");
    CHECK(request.headers.count("authorization") == 0);
  }
  const auto open = site.pin({}, {{"HF_ENDPOINT", "http://hub.example"}, {"http_proxy", address}, {"no_proxy", ""}});
  CHECK(open.status.code == 1);
  CHECK(contains(open.errors, "hub/token-withheld"));
  CHECK(contains(open.errors, "hub/no-access"));
  CHECK(proxy.requests().back().headers.count("authorization") == 0);
}

TEST_CASE("weights pin: the environment can forbid it, and can hold nonsense") {
  const Site site;
  const auto offline = site.pin({}, {{"HF_HUB_OFFLINE", "1"}});
  CHECK(offline.status.code == 3);
  CHECK(contains(offline.errors, "hub/offline"));
  CHECK(site.pin({}, {{"HF_ENDPOINT", "hub"}}).status.code == 2);
  CHECK(site.pin({}, {{"HF_TOKEN", kToken + " x"}}).status.code == 2);
  CHECK(site.server().requests().empty());
  CHECK(contains(site.pin({}, {{"HF_TOKEN", "wrong"}}).errors, "hub/no-repository"));
}

TEST_CASE("weights pin: sources of a pin exclude each other") {
  const Site site;
  const std::string listing = site.dir().write("tree.json", "[]").string();
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"pin"},
        {"pin", kModel + "@" + kCommit, "--from-dir", "x"},
        {"pin", kModel + "@" + kCommit, "--model", kModel},
        {"pin", kModel + "@" + kCommit, "--revision", kCommit},
        {"pin", "--from-dir", site.model_dir().string()},
        {"pin", "--from-dir", site.model_dir().string(), "--model", kModel, "--resolve"},
        {"pin", "--from-dir", site.model_dir().string(), "--model", kModel, "--revision", "main"},
        {"pin", "--from-listing", listing, "--model", kModel},
        {"pin", "--from-listing", listing, "--model", kModel, "--revision", kCommit, "--generator", "g"}}) {
    CAPTURE(arguments);
    const auto refused = site.run(arguments);
    CHECK(refused.status.code == 2);
    CHECK(contains(refused.errors, "cli/usage"));
  }
  const auto no_folder = site.run({"pin", kModel + "@" + kCommit, "--output", "/no/such/folder/pin.json"});
  CHECK(no_folder.status.code == 3);
  CHECK(contains(no_folder.errors, "there is no folder /no/such/folder"));
  CHECK(site.server().requests().empty());
}

TEST_CASE("weights pin: a folder and a recorded listing give pins without the hub") {
  const Site site;
  const auto folder = site.run(
      {"pin", "--from-dir", site.model_dir().string(), "--model", kModel, "--output", site.pin_file().string()});
  CHECK(folder.status.code == 0);
  CHECK(site.run({"verify", site.model_dir().string(), "--pin", site.pin_file().string()}).status.code == 0);
  const auto data = reference_data();
  if (data.empty()) SWEEP_SKIP("no reference data");
  const std::string sample = (data / "hub" / "tiny-moe").string();
  const auto listing = site.run({"pin", "--from-listing", (data / "hub" / "tree_recursive.json").string(), "--index",
                                 sample + "/model.safetensors.index.json", "--model", kModel, "--revision", kCommit,
                                 "--output", site.pin_file().string()});
  INFO(listing.errors);
  CHECK(listing.status.code == 0);
  CHECK(site.run({"verify", sample, "--pin", site.pin_file().string()}).status.code == 0);
  CHECK(site.server().requests().empty());
}

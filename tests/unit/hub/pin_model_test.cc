#include "orchestrator/hub/pin_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>

#include "orchestrator/base/rng.h"
#include "orchestrator/diag/rules/http.h"
#include "orchestrator/diag/rules/hub.h"
#include "orchestrator/diag/rules/weights.h"
#include "orchestrator/digest/sha1.h"
#include "orchestrator/http/client.h"
#include "orchestrator/hub/api.h"
#include "orchestrator/weights/verify.h"
#include "tests/support/catch.h"
#include "tests/support/hub_server.h"
#include "tests/support/test_dir.h"
#include "tests/support/tiny_model.h"
#include "tests/unit/hub/hub_client.h"

namespace sweep::hub {

namespace {

using nlohmann::json;
using test::HttpRequest;
using test::HubModel;
using test::HubServer;
using test::Reply;

const std::string kModel = "example-org/tiny-moe";
const std::string kCommit = "0123456789abcdef0123456789abcdef01234567";
const std::string kIndex(weights::kIndexName);

// A generated model of three shards and a file in a folder.
class Model {
 public:
  Model() {
    test::write_tiny_model(dir_.path());
    dir_.write("encoding/vocab v1.json", "{}");
    hub_.files = test::read_model(dir_.path());
  }
  const std::filesystem::path& dir() const { return dir_.path(); }
  HubModel& hub() { return hub_; }

 private:
  test::TestDir dir_;
  HubModel hub_;
};

struct Pinned {
  std::optional<weights::Pin> pin;
  diag::Diagnostics diagnostics;
  std::vector<std::string> steps;
  size_t waits = 0;

  bool has(diag::RuleId rule) const {
    return std::any_of(diagnostics.items().begin(), diagnostics.items().end(),
                       [&](const diag::Diagnostic& d) { return d.rule == rule; });
  }
  std::string text() const {
    std::string all;
    for (const auto& d : diagnostics.items())
      all += fmt::format("{}: {} ({})\n", diag::rule_info(d.rule).slug, d.message, d.help);
    return all;
  }
};

Pinned pin(const HubServer& server, const std::string& model = kModel, const std::string& token = {}) {
  Pinned result;
  HubClient client;
  Connection connection = client.connect(server.url(), token);
  result.pin = pin_from_hub(
      connection, {.model = model, .revision = kCommit}, [&](const std::string& step) { result.steps.push_back(step); },
      result.diagnostics);
  result.waits = client.waits.size();
  CHECK(result.pin.has_value() == !result.diagnostics.has_errors());
  return result;
}

// What comes of a model when the hub's answers to requests for `part` are replaced.
Pinned pin_with(const std::string& part, const std::function<void(const HttpRequest&, Reply&)>& script) {
  Model model;
  const HubServer server(model.hub(), [&](const HttpRequest& request, Reply& reply) {
    if (!contains(request.target, part)) return false;
    script(request, reply);
    return true;
  });
  return pin(server);
}

void json_reply(Reply& reply, const json& body, const std::string& headers = {}) {
  reply.whole(200, "application/json", body.dump(), headers);
}

// A Link header without scheme and host, so that it leads to the server that gives it.
std::string relative(const std::string& link) {
  return "<" + link.substr(link.find("/api/"));
}

json entry(const std::string& path, const std::string& content) {
  return {{"type", "file"}, {"path", path}, {"size", content.size()}, {"oid", digest::git_blob_id(content)}};
}

}  // namespace

TEST_CASE("pin: holds every file as the hub lists it, and the folder verifies against it") {
  Model model;
  const HubServer server(model.hub());
  const Pinned result = pin(server);
  INFO(result.text());
  REQUIRE(result.pin.has_value());
  CHECK(result.diagnostics.empty());
  CHECK(result.pin->model == kModel);
  CHECK(result.pin->revision == kCommit);
  CHECK(result.pin->complete);
  CHECK(result.pin->files.size() == model.hub().files.size());
  REQUIRE(result.pin->index.has_value());
  CHECK(result.pin->index->tensor_count == 6);
  CHECK(weights::verify(model.dir(), *result.pin).verified);
  CHECK(result.steps.size() == 3);
  // Nothing is asked for each shard, and no weights are fetched.
  CHECK(server.requests().size() == 4);
  CHECK(server.store_requests().empty());
}

TEST_CASE("pin: the same commit gives the same bytes, in one page or many") {
  Model model;
  const HubServer whole(model.hub());
  model.hub().page_size = 2;
  const HubServer pages(model.hub());
  const auto first = pin(whole);
  const auto second = pin(pages);
  REQUIRE(first.pin.has_value());
  REQUIRE(second.pin.has_value());
  CHECK(weights::to_text(*first.pin) == weights::to_text(*second.pin));
  CHECK(pages.requests().size() == whole.requests().size() + 3);
}

TEST_CASE("pin: a recorded listing gives the pin that the hub gives") {
  Model model;
  model.hub().page_size = 3;
  const HubServer server(model.hub());
  const auto from_hub = pin(server);
  REQUIRE(from_hub.pin.has_value());
  const test::TestDir dir;
  RecordedListing recorded{.wanted = {.model = kModel, .revision = kCommit}, .index = model.dir() / kIndex};
  HubClient client;
  Connection connection = client.connect(server.url());
  std::string url = server.url() + "/api/models/" + kModel + "/tree/" + kCommit + "?recursive=true";
  while (true) {
    const auto page = connection.send({.url = url});
    REQUIRE(page.has_value());
    recorded.pages.push_back(dir.write(fmt::format("{}.json", recorded.pages.size()), page->response.body));
    const auto next = next_link(page->response.head.header("link"));
    if (!next) break;
    url = *next;
  }
  CHECK(recorded.pages.size() == 3);
  diag::Diagnostics diagnostics;
  const auto offline = pin_from_listing(recorded, diagnostics);
  REQUIRE(offline.has_value());
  CHECK((*offline == *from_hub.pin));
  recorded.index.clear();
  const auto without_totals = pin_from_listing(recorded, diagnostics);
  REQUIRE(without_totals.has_value());
  CHECK(!without_totals->index.has_value());
  CHECK(diagnostics.empty());

  // A page too few, a page twice, another index.
  const auto refused = [&](const RecordedListing& changed) {
    diag::Diagnostics problems;
    CHECK(!pin_from_listing(changed, problems).has_value());
    REQUIRE(!problems.empty());
    return diag::rule_info(problems.items().front().rule).slug;
  };
  RecordedListing changed = recorded;
  changed.pages.erase(changed.pages.begin() + 1);
  CHECK(refused(changed) == "hub/missing-shard");
  changed = recorded;
  changed.pages.push_back(recorded.pages[0]);
  CHECK(refused(changed) == "hub/duplicate-path");
  changed = recorded;
  changed.index = dir.write("index.json", "{}");
  CHECK(refused(changed) == "hub/identity-mismatch");
  changed = recorded;
  changed.wanted.revision = "main";
  CHECK(refused(changed) == "hub/not-a-commit");
  changed = recorded;
  changed.pages = {dir.write("page.json", "<html>")};
  CHECK(refused(changed) == "hub/bad-listing");
  changed.pages = {dir / "absent.json"};
  CHECK(refused(changed) == "file/unreadable");
}

TEST_CASE("pin: the recorded sample of the hub verifies the recorded model") {
  const auto data = test::reference_data();
  if (data.empty()) SWEEP_SKIP("no reference data");
  HubModel sample{.files = test::read_model(data / "hub" / "tiny-moe")};
  const HubServer server(sample);
  const auto result = pin(server);
  INFO(result.text());
  REQUIRE(result.pin.has_value());
  diag::Diagnostics diagnostics;
  const auto recorded = pin_from_listing({.wanted = {.model = kModel, .revision = kCommit},
                                          .pages = {data / "hub" / "tree_recursive.json"},
                                          .index = data / "hub" / "tiny-moe" / kIndex},
                                         diagnostics);
  REQUIRE(recorded.has_value());
  CHECK((*recorded == *result.pin));
  CHECK(result.pin->index->total_size == 344);
  CHECK(weights::verify(data / "hub" / "tiny-moe", *result.pin).verified);
}

TEST_CASE("pin: the token opens a private repository") {
  Model model;
  model.hub().token = "hunter2";
  const HubServer server(model.hub());
  CHECK(pin(server, kModel, "hunter2").pin.has_value());
  CHECK(pin(server).has(diag::rule::hub_no_access));
  CHECK(pin(server, kModel, "wrong").has(diag::rule::hub_no_repository));
}

TEST_CASE("pin: content that a redirect leads to another host for is asked for without the token") {
  Model model;
  model.hub().token = "hunter2";
  const test::HttpServer other(
      [&](const HttpRequest&, Reply& reply) { reply.whole(200, "text/plain", model.hub().files.at(kIndex)); });
  const HubServer server(model.hub(), [&](const HttpRequest& request, Reply& reply) {
    if (!contains(request.target, "/resolve/") || !contains(request.target, kIndex)) return false;
    reply.whole(302, "text/plain", "", fmt::format("Location: {}/signed?for=you\r\n", other.url()));
    return true;
  });
  const auto result = pin(server, kModel, "hunter2");
  INFO(result.text());
  REQUIRE(result.pin.has_value());
  REQUIRE(other.requests().size() == 1);
  CHECK(other.requests()[0].headers.count("authorization") == 0);
  for (const HttpRequest& request : server.requests()) CHECK(request.headers.at("authorization") == "Bearer hunter2");
}

TEST_CASE("pin: a renamed repository is pinned under its new name, with a warning") {
  Model model;
  model.hub().former_name = "old-org/old-name";
  const HubServer server(model.hub());
  const auto result = pin(server, "old-org/old-name");
  INFO(result.text());
  REQUIRE(result.pin.has_value());
  CHECK(result.pin->model == kModel);
  CHECK(result.has(diag::rule::hub_renamed));
  CHECK(result.diagnostics.items().size() == 1);
}

TEST_CASE("pin: a branch is resolved to its commit and the current name") {
  Model model;
  model.hub().branches = {{"refs/pr/1", std::string(40, 'c')}};
  model.hub().former_name = "old-org/old-name";
  const HubServer server(model.hub());
  HubClient client;
  Connection connection = client.connect(server.url());
  diag::Diagnostics diagnostics;
  const auto found = resolve_commit(connection, {.model = "old-org/old-name", .revision = "refs/pr/1"}, diagnostics);
  REQUIRE(found.has_value());
  REQUIRE(diagnostics.items().size() == 2);
  CHECK(diagnostics.items()[0].rule == diag::rule::hub_resolved);
  CHECK(diagnostics.items()[0].severity == diag::Severity::kNote);
  CHECK(diagnostics.items()[1].rule == diag::rule::hub_renamed);
  CHECK(found->model == kModel);
  CHECK(found->revision == std::string(40, 'c'));
  CHECK(contains(server.requests()[0].target, "/revision/refs%2Fpr%2F1"));
  CHECK(!resolve_commit(connection, {.model = kModel, .revision = "nosuch"}, diagnostics).has_value());
  CHECK(diagnostics.items().back().rule == diag::rule::hub_no_revision);
}

TEST_CASE("pin: a reply about the branch that is none is refused") {
  for (const char* body : {"<html>", "[]", "{}", "{\"sha\": \"abc\"}", "{\"sha\": 5}", ""}) {
    CAPTURE(body);
    const test::HttpServer server([&](const HttpRequest&, Reply& reply) { reply.whole(200, "text/html", body); });
    HubClient client;
    Connection connection = client.connect(server.url());
    const auto found = ask_commit(connection, {.model = kModel, .revision = "main"});
    REQUIRE(!found.has_value());
    CHECK(found.error().rule == diag::rule::hub_bad_reply);
  }
}

TEST_CASE("pin: a listing that is an HTML page, broken or empty is no listing") {
  CHECK(pin_with("/tree/", [](const HttpRequest&, Reply& reply) {
          reply.whole(200, "text/html", "<html>please log in</html>");
        }).has(diag::rule::hub_bad_reply));
  CHECK(pin_with("/tree/", [](const HttpRequest&, Reply& reply) {
          json_reply(reply, json::array());
        }).has(diag::rule::hub_missing_shard));
  const auto several = pin_with("/tree/", [](const HttpRequest&, Reply& reply) {
    json_reply(reply, json::array({entry("../x", "1"), {{"type", "file"}}, entry("a", "1"), entry("a", "1")}));
  });
  CHECK(several.has(diag::rule::weights_path_escape));
  CHECK(several.has(diag::rule::hub_bad_reply));
  CHECK(several.has(diag::rule::hub_duplicate_path));
}

TEST_CASE("pin: pages that do not end, or are somewhere else, are refused") {
  CHECK(contains(pin_with("/tree/",
                          [](const HttpRequest& request, Reply& reply) {
                            json_reply(reply, json::array(),
                                       fmt::format("Link: <{}>; rel=\"next\"\r\n", request.target));
                          })
                     .text(),
                 "lead back"));
  const auto elsewhere = pin_with("/tree/", [](const HttpRequest&, Reply& reply) {
    json_reply(reply, json::array(), "Link: <http://other.example/tree>; rel=\"next\"\r\n");
  });
  CHECK(contains(elsewhere.text(), "on another host, http://other.example/tree"));
  const auto redirected = pin_with("/tree/", [](const HttpRequest&, Reply& reply) {
    reply.whole(302, "text/plain", "", "Location: http://other.example/tree\r\n");
  });
  CHECK(redirected.has(diag::rule::hub_bad_reply));
  CHECK(contains(redirected.text(), "HF_ENDPOINT"));
  CHECK(pin_with("/tree/", [](const HttpRequest& request, Reply& reply) {
          reply.whole(307, "text/plain", "", fmt::format("Location: {}\r\n", request.target));
        }).has(diag::rule::http_redirect));
}

TEST_CASE("pin: an index with other content than listed is not read") {
  for (const std::string content : {"", "{}", "<html>login</html>"}) {
    CAPTURE(content);
    const auto result = pin_with("/resolve/" + kCommit + "/" + kIndex,
                                 [&](const HttpRequest&, Reply& reply) { reply.whole(200, "text/plain", content); });
    CHECK(result.has(diag::rule::hub_identity));
    CHECK(contains(result.text(), digest::git_blob_id(content)));
  }
}

TEST_CASE("pin: an index that names shards which are not there is refused, saying who lacks them") {
  Model model;
  const std::string gone = test::shard_name(2, 3);
  model.hub().files.erase(gone);
  const HubServer incomplete(model.hub());
  const auto absent = pin(incomplete);
  CHECK(absent.has(diag::rule::hub_missing_shard));
  CHECK(contains(absent.text(), fmt::format("\"{}\", which the repository does not have", gone)));

  Model whole;
  const HubServer forgetful(whole.hub(), [&](const HttpRequest& request, Reply& reply) {
    if (!contains(request.target, "/tree/")) return false;
    json page = json::array();
    for (const auto& [path, content] : whole.hub().files)
      if (path != gone) page.push_back(entry(path, content));
    json_reply(reply, page);
    return true;
  });
  CHECK(contains(pin(forgetful).text(), "the repository has it, but the hub's listing does not name it"));

  Model without_index;
  without_index.hub().files.erase(gone);
  without_index.hub().files.erase(kIndex);
  const HubServer numbered(without_index.hub());
  CHECK(contains(pin(numbered).text(), "the numbering of the shards calls for \"" + gone));
}

TEST_CASE("pin: an index that counts more bytes than there are is pinned with a warning") {
  Model model;
  json index = json::parse(model.hub().files[kIndex]);
  index["metadata"]["total_size"] = 1'000'000;
  model.hub().files[kIndex] = index.dump();
  const HubServer server(model.hub());
  const auto result = pin(server);
  REQUIRE(result.pin.has_value());
  CHECK(result.has(diag::rule::hub_index_total));
  CHECK(result.pin->index->total_size == 1'000'000);
}

TEST_CASE("pin: an index that escapes the folder, or is none, is refused") {
  Model model;
  model.hub().files[kIndex] = R"({"weight_map": {"w": "../../etc/passwd"}})";
  const HubServer escaping(model.hub());
  CHECK(pin(escaping).has(diag::rule::weights_path_escape));
  model.hub().files[kIndex] = "[]";
  const HubServer none(model.hub());
  CHECK(pin(none).has(diag::rule::weights_index_malformed));
}

TEST_CASE("pin: headers of another commit or another file are refused") {
  const auto head = [](const std::string& headers) {
    return pin_with("/config.json", [headers](const HttpRequest&, Reply& reply) {
      reply.raw("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 26\r\n" + headers + "\r\n");
    });
  };
  const std::string blob = digest::git_blob_id(R"({"architectures":["Tiny"]})");
  const std::string commit = "X-Repo-Commit: " + kCommit + "\r\n";
  const auto good = head(commit + "ETag: W/\"" + blob + "\"\r\n");
  INFO(good.text());
  CHECK(good.pin.has_value());
  CHECK(head("X-Repo-Commit: " + std::string(40, 'f') + "\r\nETag: \"" + blob + "\"\r\n")
            .has(diag::rule::hub_wrong_commit));
  CHECK(head(commit + "ETag: \"" + std::string(40, 'f') + "\"\r\n").has(diag::rule::hub_identity));
  CHECK(head(commit + "X-Linked-ETag: \"x\"\r\nETag: \"" + blob + "\"\r\n").has(diag::rule::hub_identity));
  CHECK(head(commit + "X-Linked-Size: 5\r\nETag: \"" + blob + "\"\r\n").has(diag::rule::hub_identity));
}

TEST_CASE("pin: a hub without a second opinion is enough for a pin, with a warning") {
  for (const std::string& part : {"/resolve/" + kCommit + "/config.json", std::string("/paths-info/")})
    for (const int status : {404, 405, 501}) {
      CAPTURE(part, status);
      const auto result =
          pin_with(part, [&](const HttpRequest&, Reply& reply) { reply.whole(status, "text/plain", "not here"); });
      INFO(result.text());
      CHECK(result.pin.has_value());
      CHECK(result.has(diag::rule::hub_unconfirmed));
    }
  const auto bare =
      pin_with("/config.json", [](const HttpRequest&, Reply& reply) { reply.whole(200, "text/plain", ""); });
  CHECK(bare.pin.has_value());
  CHECK(bare.has(diag::rule::hub_unconfirmed));
  // The file is listed, and the hub says that there is none.
  CHECK(pin_with("/config.json", [](const HttpRequest&, Reply& reply) {
          reply.whole(404, "text/plain", "", "X-Error-Code: EntryNotFound\r\n");
        }).has(diag::rule::hub_no_file));
}

TEST_CASE("pin: a second opinion that differs is refused") {
  Model model;
  const std::string shard = test::shard_name(1, 3);
  const auto with = [&](const std::function<void(json&)>& change) {
    const HubServer server(model.hub(), [&](const HttpRequest& request, Reply& reply) {
      if (!contains(request.target, "/paths-info/")) return false;
      json list = json::array();
      for (const auto& [path, content] : model.hub().files)
        if (test::is_large_file(path)) {
          json item = entry(path, content);
          item["lfs"] = {{"oid", digest::git_blob_id(content) + std::string(24, '0')}, {"size", content.size()}};
          list.push_back(item);
        }
      change(list);
      json_reply(reply, list);
      return true;
    });
    return pin(server);
  };
  CHECK(with([](json&) {}).has(diag::rule::hub_identity));
  const auto silent = with([](json& list) { list = json::array(); });
  CHECK(silent.pin.has_value());
  CHECK(contains(silent.text(), "paths-info says nothing about"));
  CHECK(with([](json& list) { list = "x"; }).has(diag::rule::hub_unconfirmed));
}

TEST_CASE("pin: files that the hub's scanners warn about are pinned with one warning a status") {
  Model model;
  const HubServer plain(model.hub());
  HubClient client;
  Connection connection = client.connect(plain.url());
  const HubServer server(model.hub(), [&](const HttpRequest& request, Reply& reply) {
    if (!contains(request.target, "/paths-info/")) return false;
    const auto answer =
        connection.send({.method = http::Method::kPost, .url = plain.url() + request.target, .form = request.body});
    json list = json::parse(answer.value().response.body);
    for (json& item : list)
      item["securityFileStatus"]["status"] = contains(item["path"].get<std::string>(), "00001") ? "unsafe" : "queued";
    json_reply(reply, list);
    return true;
  });
  const auto result = pin(server);
  INFO(result.text());
  CHECK(result.pin.has_value());
  REQUIRE(result.diagnostics.items().size() == 2);
  CHECK(result.diagnostics.items()[0].rule == diag::rule::hub_not_safe);
  CHECK(contains(result.text(), "\"unsafe\" about \"model-00001-of-00003.safetensors\""));
}

TEST_CASE("pin: trouble that passes changes nothing") {
  Model model;
  const HubServer calm(model.hub());
  std::atomic<int> count = 0;
  const HubServer server(model.hub(), [&](const HttpRequest& request, Reply& reply) {
    switch (count++ % 5) {
      case 0:
        reply.whole(429, "text/plain", "", "Retry-After: 1\r\n");
        return true;
      case 1:
        reply.whole(503, "text/html", "<html>");
        return true;
      case 2:
        // A HEAD has no body that could be cut.
        if (request.method == "HEAD")
          reply.whole(500, "text/plain", "");
        else
          reply.raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[{\"type\"");
        return true;
      case 3:
        reply.reset();
        return true;
      default:
        return false;
    }
  });
  const auto expected = pin(calm);
  const auto result = pin(server);
  INFO(result.text());
  REQUIRE(result.pin.has_value());
  CHECK(weights::to_text(*result.pin) == weights::to_text(*expected.pin));
  CHECK(result.waits == 16);
}

TEST_CASE("pin: a byte that changes in any one reply changes no pin unnoticed") {
  Model model;
  model.hub().page_size = 3;
  const HubServer genuine(model.hub());
  const auto truth = pin(genuine);
  REQUIRE(truth.pin.has_value());
  const size_t replies = genuine.requests().size();
  base::SplitMix64 random(5);
  size_t refused = 0;
  for (int i = 0; i < 120; ++i) {
    CAPTURE(i);
    const size_t victim = random.below(replies);
    std::atomic<size_t> number = 0;
    const HubServer server(model.hub(), [&](const HttpRequest& request, Reply& reply) {
      if (number++ != victim || request.method == "HEAD") return false;
      const auto method = request.method == "POST" ? http::Method::kPost : http::Method::kGet;
      const auto whole = http::send(method, {.url = genuine.url() + request.target, .body = request.body});
      std::string body = whole.value().body;
      char& byte = body[random.below(body.size())];
      byte = static_cast<char>(random.below(2) == 0 ? byte ^ (1 << random.below(7)) : '0' + random.below(10));
      const std::string next(whole->head.header("link"));
      reply.whole(200, "application/json", body, next.empty() ? "" : fmt::format("Link: {}\r\n", relative(next)));
      return true;
    });
    const auto result = pin(server);
    INFO(result.text());
    if (!result.pin)
      ++refused;
    else if (weights::to_text(*result.pin) != weights::to_text(*truth.pin))
      CHECK(result.has(diag::rule::hub_unconfirmed));  // a name that only the listing knows
  }
  CHECK(refused > 50);
}

TEST_CASE("pin: whatever a listing holds, it is read or refused") {
  Model model;
  const HubServer server(model.hub());
  HubClient client;
  Connection connection = client.connect(server.url());
  const std::string text =
      connection.send({.url = server.url() + "/api/models/" + kModel + "/tree/" + kCommit}).value().response.body;
  base::SplitMix64 random(11);
  const std::string bytes = "\"[]{}:,.\\/0-9aZ \n\x00\xff<";
  size_t refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string mutated = text;
    const size_t at = random.below(mutated.size());
    switch (random.below(3)) {
      case 0:
        mutated[at] = bytes[random.below(bytes.size())];
        break;
      case 1:
        mutated.erase(at, random.below(40));
        break;
      default:
        mutated.insert(at, mutated.substr(random.below(mutated.size()), random.below(80)));
    }
    diag::Diagnostics diagnostics;
    auto files = parse_entries(mutated, {.name = "listing", .rule = diag::rule::hub_bad_listing}, diagnostics);
    tidy(files, diagnostics);
    refused += diagnostics.has_errors() ? 1 : 0;
    for (const ListedFile& file : files) CHECK(file.sha256.has_value() != file.git_blob.has_value());
  }
  CHECK(refused > 1000);
}

}  // namespace sweep::hub

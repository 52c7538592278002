#include "orchestrator/hub/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "orchestrator/diag/rules/hub.h"
#include "orchestrator/diag/terminal_text.h"
#include "orchestrator/http/request.h"
#include "orchestrator/http/url.h"

namespace sweep::hub {

namespace {

constexpr std::string_view kModels = "/api/models/";
constexpr uint64_t kLargestReply = uint64_t{64} << 20;
constexpr size_t kMostPages = 10'000;
constexpr size_t kMostFiles = 1'000'000;
constexpr size_t kPathsPerRequest = 500;

std::string api_url(const Connection& connection, const ModelRevision& wanted, std::string_view what) {
  return fmt::format("{}{}{}/{}/{}", connection.endpoint(), kModels, wanted.model, what,
                     http::percent_encoded(wanted.revision));
}

std::string file_url(const Connection& connection, const ModelRevision& wanted, std::string_view path) {
  std::string url =
      fmt::format("{}/{}/resolve/{}", connection.endpoint(), wanted.model, http::percent_encoded(wanted.revision));
  while (true) {
    const size_t slash = path.find('/');
    url += "/" + http::percent_encoded(path.substr(0, slash));
    if (slash == std::string_view::npos) return url;
    path.remove_prefix(slash + 1);
  }
}

// The model that the address of a reply is about: after a redirect, its current name.
std::string model_of(const std::string& url, const std::string& asked) {
  const std::string path = http::path_of(url);
  const size_t begin = path.find(kModels);
  if (begin == std::string::npos) return asked;
  const std::string_view rest = std::string_view(path).substr(begin + kModels.size());
  const size_t end = rest.find('/', rest.find('/') + 1);
  const std::string name(rest.substr(0, end));
  return check_model(name) ? name : asked;
}

// A redirect that was not followed, or another success than 200, is no reply of the API.
std::optional<diag::Diagnostic> not_ok(const http::Answer& answer) {
  const int status = answer.response.head.status;
  if (status == http::status::kOk) return std::nullopt;
  const std::string location(answer.response.head.header("location"));
  const auto target = http::resolve_reference(answer.url, location);
  return diag::make(diag::rule::hub_bad_reply,
                    target ? fmt::format("{}: status {} leads away from the hub, to {}", http::display_url(answer.url),
                                         status, http::display_url(*target))
                           : fmt::format("{}: unexpected status {}", http::display_url(answer.url), status),
                    target ? "if that is where the hub is, name it in HF_ENDPOINT" : "");
}

base::Unexpected<diag::Diagnostic> bad_reply(const std::string& url, std::string_view problem) {
  return diag::fail(diag::rule::hub_bad_reply, fmt::format("{}: {}", http::display_url(url), problem));
}

EntrySource source_of(const http::Answer& answer) {
  return {.name = http::display_url(answer.url), .rule = diag::rule::hub_bad_reply};
}

// The address of the next page; empty after the last one.
diag::Result<std::string> next_page(const Connection& connection, const http::Answer& page) {
  const auto link = next_link(page.response.head.header("link"));
  if (!link) return std::string();
  auto next = http::resolve_reference(page.url, *link);
  if (!next) return bad_reply(page.url, "the address of the next page is not a URL of a web server");
  if (http::origin_of(*next).value() != http::origin_of(connection.endpoint()).value())
    return bad_reply(page.url, fmt::format("the next page is on another host, {}", http::display_url(*next)));
  return next;
}

}  // namespace

diag::Result<ModelRevision> ask_commit(Connection& connection, const ModelRevision& wanted) {
  const auto answer = connection.send({.url = api_url(connection, wanted, "revision"), .about = wanted});
  if (!answer) return diag::fail(answer.error());
  if (auto problem = not_ok(*answer)) return diag::fail(std::move(*problem));
  const auto json = nlohmann::json::parse(answer->response.body, nullptr, false);
  if (!json.is_object())
    return bad_reply(answer->url, fmt::format("found {}, expected a JSON object about the model",
                                              looks_like(answer->response.body)));
  const auto sha = json.find("sha");
  if (sha == json.end() || !sha->is_string() || !is_commit(sha->get_ref<const std::string&>()))
    return bad_reply(answer->url, "there is no \"sha\" of 40 hex digits");
  ModelRevision found{.model = model_of(answer->url, wanted.model), .revision = sha->get<std::string>()};
  const auto id = json.find("id");
  if (id != json.end() && id->is_string() && check_model(id->get_ref<const std::string&>())) found.model = *id;
  return found;
}

std::optional<Listing> ask_tree(Connection& connection, const ModelRevision& wanted, diag::Diagnostics& diagnostics) {
  Listing listing{.model = wanted.model};
  const auto give_up = [&](const diag::Diagnostic& reason) {
    diagnostics.add(reason);
    return std::nullopt;
  };
  const size_t errors_before = diagnostics.error_count();
  std::set<std::string> seen;
  std::string url = api_url(connection, wanted, "tree") + "?recursive=true&expand=false";
  while (!url.empty()) {
    if (!seen.insert(url).second)
      return give_up(bad_reply(url, "the pages of the listing lead back to one that was read already").error);
    if (seen.size() > kMostPages || listing.files.size() > kMostFiles)
      return give_up(bad_reply(url, fmt::format("the listing goes on after {} pages and {} files", seen.size() - 1,
                                                listing.files.size()))
                         .error);
    const auto page = connection.send({.url = url, .max_bytes = kLargestReply, .about = wanted});
    if (!page) return give_up(page.error());
    if (const auto problem = not_ok(*page)) return give_up(*problem);
    if (seen.size() == 1) listing.model = model_of(page->url, wanted.model);
    auto files = parse_entries(page->response.body, source_of(*page), diagnostics);
    std::move(files.begin(), files.end(), std::back_inserter(listing.files));
    auto next = next_page(connection, *page);
    if (!next) return give_up(next.error());
    url = std::move(*next);
  }
  tidy(listing.files, diagnostics);
  if (diagnostics.error_count() != errors_before) return std::nullopt;
  return listing;
}

std::optional<std::vector<ListedFile>> ask_paths(Connection& connection, const ModelRevision& wanted,
                                                 std::span<const std::string> paths, diag::Diagnostics& diagnostics) {
  const size_t errors_before = diagnostics.error_count();
  std::vector<ListedFile> known;
  while (!paths.empty()) {
    const auto now = paths.first(std::min(paths.size(), kPathsPerRequest));
    paths = paths.subspan(now.size());
    std::string form = "expand=true";
    for (const std::string& path : now) form += "&paths=" + http::percent_encoded(path);
    const auto answer = connection.send({.method = http::Method::kPost,
                                         .url = api_url(connection, wanted, "paths-info"),
                                         .form = std::move(form),
                                         .max_bytes = kLargestReply,
                                         .about = wanted});
    if (!answer) {
      diagnostics.add(answer.error());
      return std::nullopt;
    }
    if (const auto problem = not_ok(*answer)) {
      diagnostics.add(*problem);
      return std::nullopt;
    }
    auto files = parse_entries(answer->response.body, source_of(*answer), diagnostics);
    std::move(files.begin(), files.end(), std::back_inserter(known));
  }
  std::sort(known.begin(), known.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  if (diagnostics.error_count() != errors_before) return std::nullopt;
  return known;
}

diag::Result<FileHead> ask_head(Connection& connection, const ModelRevision& wanted, const std::string& path) {
  const std::string url = file_url(connection, wanted, path);
  const auto answer = connection.send({.method = http::Method::kHead, .url = url, .about = wanted, .file = path});
  if (!answer) return diag::fail(answer.error());
  const http::ReplyHead& head = answer->response.head;
  const std::string_view linked = head.header("x-linked-etag");
  FileHead result{.commit = std::string(head.header("x-repo-commit")),
                  .etag = bare_etag(linked.empty() ? head.header("etag") : linked),
                  .size = std::nullopt};
  if (result.commit.empty()) return bad_reply(url, "the reply has no header X-Repo-Commit");
  if (result.etag.empty()) return bad_reply(url, "the reply has no header ETag");
  // The length of a redirect is that of its text.
  std::string_view length = head.header("x-linked-size");
  if (length.empty() && head.status == http::status::kOk) length = head.header("content-length");
  uint64_t size = 0;
  const auto [end, error] = std::from_chars(length.data(), length.data() + length.size(), size);
  if (!length.empty() && error == std::errc() && end == length.data() + length.size()) result.size = size;
  return result;
}

diag::Result<std::string> ask_content(Connection& connection, const ModelRevision& wanted, const std::string& path,
                                      uint64_t max_bytes) {
  auto answer = connection.send({.url = file_url(connection, wanted, path),
                                 .max_bytes = max_bytes,
                                 .redirects = http::Redirects::kAnywhere,
                                 .about = wanted,
                                 .file = path});
  if (!answer) return diag::fail(answer.error());
  if (auto problem = not_ok(*answer)) return diag::fail(std::move(*problem));
  return std::move(answer->response.body);
}

std::optional<std::string> next_link(std::string_view header) {
  while (true) {
    const size_t open = header.find('<');
    const size_t close = header.find('>', open == std::string_view::npos ? 0 : open);
    if (open == std::string_view::npos || close == std::string_view::npos) return std::nullopt;
    const std::string_view target = header.substr(open + 1, close - open - 1);
    header.remove_prefix(close + 1);
    bool quoted = false;
    size_t end = 0;
    for (; end < header.size() && (quoted || header[end] != ','); ++end)
      if (header[end] == '"') quoted = !quoted;
    std::string parameters(header.substr(0, end));
    parameters.erase(std::remove_if(parameters.begin(), parameters.end(), [](char c) { return c == ' ' || c == '"'; }),
                     parameters.end());
    if ((parameters + ";").find(";rel=next;") != std::string::npos) return std::string(target);
    header.remove_prefix(end);
  }
}

std::string bare_etag(std::string_view header) {
  if (header.starts_with("W/")) header.remove_prefix(2);
  if (header.size() >= 2 && header.front() == '"' && header.back() == '"') header = header.substr(1, header.size() - 2);
  return std::string(header);
}

}  // namespace sweep::hub

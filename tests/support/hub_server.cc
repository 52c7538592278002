#include "tests/support/hub_server.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "orchestrator/base/check.h"
#include "orchestrator/base/file.h"
#include "orchestrator/digest/sha1.h"
#include "orchestrator/digest/sha256.h"

namespace sweep::test {

namespace {

using nlohmann::json;

constexpr const char* kJson = "application/json; charset=utf-8";

std::string decoded(std::string_view text) {
  std::string plain;
  while (!text.empty()) {
    unsigned value = 0;
    if (text.front() == '%' && text.size() >= 3 &&
        std::from_chars(text.data() + 1, text.data() + 3, value, 16).ptr == text.data() + 3) {
      plain += static_cast<char>(value);
      text.remove_prefix(3);
    } else {
      plain += text.front();
      text.remove_prefix(1);
    }
  }
  return plain;
}

// The value of a field of a query or form; all of them in order.
std::vector<std::string> fields(std::string_view form, std::string_view name) {
  std::vector<std::string> values;
  while (!form.empty()) {
    const std::string_view pair = form.substr(0, form.find('&'));
    form.remove_prefix(std::min(form.size(), pair.size() + 1));
    if (pair.starts_with(name) && pair.substr(name.size()).starts_with('='))
      values.push_back(decoded(pair.substr(name.size() + 1)));
  }
  return values;
}

json entry_of(const std::string& path, const std::string& content, bool expand) {
  json entry = {{"type", "file"}, {"size", content.size()}, {"path", path}};
  if (is_large_file(path)) {
    const std::string sha256 = digest::sha256_hex(content);
    const std::string pointer =
        fmt::format("version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize {}\n", sha256, content.size());
    entry["oid"] = digest::git_blob_id(pointer);
    entry["lfs"] = {{"oid", sha256}, {"size", content.size()}, {"pointerSize", pointer.size()}};
    entry["xetHash"] = std::string(64, 'e');
  } else {
    entry["oid"] = digest::git_blob_id(content);
  }
  if (expand) entry["securityFileStatus"] = {{"status", "safe"}};
  return entry;
}

void refuse(Reply& reply, int status, std::string_view code) {
  reply.whole(status, kJson, json{{"error", fmt::format("{} for this request", code)}}.dump(),
              fmt::format("X-Error-Code: {}\r\n", code));
}

}  // namespace

ModelFiles read_model(const std::filesystem::path& dir) {
  ModelFiles files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir)) {
    if (!entry.is_regular_file()) continue;
    const auto content = base::read_file(entry.path());
    SWEEPCTL_CHECK(content.has_value());
    files[entry.path().lexically_relative(dir).generic_string()] = *content;
  }
  return files;
}

bool is_large_file(const std::string& path) {
  return path.ends_with(".safetensors") || path == "tokenizer.json";
}

HubServer::HubServer(HubModel model, Intercept intercept, const WireMaker& wires)
    : model_(std::move(model)), intercept_(std::move(intercept)), scheme_(wires ? "https" : "http") {
  const WireMaker used = wires ? wires : plain_wires();
  store_ = std::make_unique<HttpServer>(
      [this](const HttpRequest& request, Reply& reply) {
        if (intercept_ && intercept_(request, reply)) return;
        const auto file = model_.files.find(decoded(request.target.substr(std::string_view("/store/").size())));
        if (file == model_.files.end()) return reply.whole(404, "text/plain", "no such object");
        reply.whole(200, "application/octet-stream", file->second);
      },
      used);
  hub_ = std::make_unique<HttpServer>(
      [this](const HttpRequest& request, Reply& reply) {
        if (!intercept_ || !intercept_(request, reply)) answer(request, reply);
      },
      used);
}

void HubServer::answer(const HttpRequest& request, Reply& reply) {
  const size_t question = request.target.find('?');
  const std::string path = request.target.substr(0, question);
  const std::string query = question == std::string::npos ? "" : request.target.substr(question + 1);
  if (!model_.former_name.empty())
    if (const size_t at = path.find("/" + model_.former_name + "/"); at != std::string::npos) {
      std::string target = request.target;
      target.replace(at + 1, model_.former_name.size(), model_.model);
      return reply.whole(307, "text/plain", "", fmt::format("Location: {}\r\n", target));
    }
  const auto authorization = request.headers.find("authorization");
  const bool allowed = model_.token.empty() ||
                       (authorization != request.headers.end() && authorization->second == "Bearer " + model_.token);
  const std::string api = "/api/models/" + model_.model + "/";
  const std::string files = "/" + model_.model + "/resolve/";
  const bool is_api = path.starts_with(api);
  if (!allowed || (!is_api && !path.starts_with(files))) return refuse(reply, 401, "RepoNotFound");

  // KIND/REVISION of the API, REVISION/PATH of files.
  const std::string rest = path.substr(is_api ? api.size() : files.size());
  const size_t slash = rest.find('/');
  const std::string kind = is_api ? rest.substr(0, slash) : "resolve";
  const std::string revision = decoded(is_api ? rest.substr(slash + 1) : rest.substr(0, slash));
  const auto branch = model_.branches.find(revision);
  if (branch == model_.branches.end() && revision != model_.commit) return refuse(reply, 404, "RevisionNotFound");
  if (kind == "tree") return tree(request.headers.at("host"), query, reply);
  if (kind == "paths-info") return paths_info(request, reply);
  if (kind == "resolve") return resolve(request, decoded(rest.substr(slash + 1)), reply);
  reply.whole(200, kJson,
              json{{"id", model_.model},
                   {"sha", branch == model_.branches.end() ? model_.commit : branch->second},
                   {"private", false}}
                  .dump());
}

void HubServer::tree(const std::string& host, const std::string& query, Reply& reply) {
  size_t cursor = 0;
  if (const auto asked = fields(query, "cursor"); !asked.empty()) cursor = std::stoul(asked.front());
  json page = json::array();
  size_t number = 0;
  for (const auto& [path, content] : model_.files) {
    if (number >= cursor && number < cursor + model_.page_size) page.push_back(entry_of(path, content, false));
    ++number;
  }
  const size_t next = cursor + model_.page_size;
  reply.whole(
      200, kJson, page.dump(),
      next < model_.files.size()
          ? fmt::format("Link: <{}://{}/api/models/{}/tree/{}?recursive=true&expand=false&cursor={}>; rel=\"next\"\r\n",
                        scheme_, host, model_.model, model_.commit, next)
          : "");
}

void HubServer::paths_info(const HttpRequest& request, Reply& reply) {
  const bool expand = fields(request.body, "expand") == std::vector<std::string>{"true"};
  json entries = json::array();
  for (const std::string& path : fields(request.body, "paths"))
    if (const auto file = model_.files.find(path); file != model_.files.end())
      entries.push_back(entry_of(path, file->second, expand));
  reply.whole(200, kJson, entries.dump());
}

void HubServer::resolve(const HttpRequest& request, const std::string& path, Reply& reply) {
  const auto file = model_.files.find(path);
  if (file == model_.files.end()) return refuse(reply, 404, "EntryNotFound");
  const std::string commit = fmt::format("X-Repo-Commit: {}\r\n", model_.commit);
  if (is_large_file(path)) {
    const std::string sha256 = digest::sha256_hex(file->second);
    return reply.whole(302, "text/plain", "",
                       fmt::format("{0}Location: {1}{2}/store/{3}\r\nX-Linked-ETag: \"{4}\"\r\nETag: \"{4}\"\r\n"
                                   "X-Linked-Size: {5}\r\n",
                                   commit, scheme_, store_->url().substr(4), path, sha256, file->second.size()));
  }
  const std::string headers = fmt::format("{}ETag: \"{}\"\r\n", commit, digest::git_blob_id(file->second));
  if (request.method == "HEAD")
    return reply.raw(fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n{}\r\n",
                                 file->second.size(), headers));
  reply.whole(200, "text/plain", file->second, headers);
}

}  // namespace sweep::test

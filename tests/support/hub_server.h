// A model hub on the loopback interface: the tree, paths-info, revision and resolve addresses of the real one, with
// large files on a second host. Each reply can be replaced by a script.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/http_server.h"

namespace sweep::test {

using ModelFiles = std::map<std::string, std::string>;  // content by path

// The files of a folder and its sub-folders.
ModelFiles read_model(const std::filesystem::path& dir);

struct HubModel {
  std::string model = "example-org/tiny-moe";
  std::string commit = "0123456789abcdef0123456789abcdef01234567";
  ModelFiles files = {};
  std::map<std::string, std::string> branches = {};  // to commits
  std::string former_name = {};                      // leads to `model`
  std::string token = {};                            // without it, the hub answers as if there were no such model
  size_t page_size = 1000;                           // entries of a page of the listing
};

// Files that the hub stores on its second host and lists by SHA-256: *.safetensors and tokenizer.json.
bool is_large_file(const std::string& path);

class HubServer {
 public:
  // True if it answered; the hub's own reply is then left out.
  using Intercept = std::function<bool(const HttpRequest&, Reply&)>;

  explicit HubServer(HubModel model, Intercept intercept = {}, const WireMaker& wires = {});

  // https:// if wires were given.
  std::string url() const { return scheme_ + hub_->url().substr(4); }
  int port() const { return hub_->port(); }
  std::vector<HttpRequest> requests() const { return hub_->requests(); }
  std::vector<HttpRequest> store_requests() const { return store_->requests(); }  // of the second host

 private:
  void answer(const HttpRequest& request, Reply& reply);
  void tree(const std::string& host, const std::string& query, Reply& reply);
  void paths_info(const HttpRequest& request, Reply& reply);
  void resolve(const HttpRequest& request, const std::string& path, Reply& reply);

  HubModel model_;
  Intercept intercept_;
  std::string scheme_;
  std::unique_ptr<HttpServer> store_;
  std::unique_ptr<HttpServer> hub_;
};

}  // namespace sweep::test

// A server of /v1/chat/completions that takes text only: it counts a token a word and puts a template around each
// prompt.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "tests/support/http_server.h"

namespace sweep::test {

struct ChatServerOptions {
  std::string model = "embedded";
  int64_t template_tokens = 7;
  // Every so many words count as one token more, as for a tokenizer that is not the client's; 0: never.
  int64_t split_every = 0;
  int64_t tokens_per_event = 3;  // of the reply, a word each
  bool continuous_usage = true;
};

class ChatServer {
 public:
  explicit ChatServer(ChatServerOptions options);

  std::string url() const { return server_.url(); }
  const HttpServer& server() const { return server_; }

 private:
  void answer(const HttpRequest& request, Reply& reply) const;
  void complete(const HttpRequest& request, Reply& reply) const;

  ChatServerOptions options_;
  HttpServer server_;  // last: its threads use the rest
};

}  // namespace sweep::test

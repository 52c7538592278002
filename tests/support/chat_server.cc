#include "tests/support/chat_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "tests/support/completion_text.h"

namespace sweep::test {

namespace {

using nlohmann::json;

}  // namespace

ChatServer::ChatServer(ChatServerOptions options)
    : options_(std::move(options)),
      server_([this](const HttpRequest& request, Reply& reply) { answer(request, reply); }) {}

void ChatServer::answer(const HttpRequest& request, Reply& reply) const {
  if (request.target == "/v1/models")
    return reply.whole(200, "application/json", json{{"data", {{{"id", options_.model}}}}}.dump());
  if (request.target == "/v1/chat/completions" && request.method == "POST") return complete(request, reply);
  reply.whole(404, "application/json", R"({"error":{"message":"no such path"}})");
}

void ChatServer::complete(const HttpRequest& request, Reply& reply) const {
  const json body = json::parse(request.body, nullptr, false);
  if (!body.is_object() || !body.contains("messages") || !body["messages"].is_array() || body["messages"].empty() ||
      !body.contains("max_tokens") || !body["max_tokens"].is_number_unsigned())
    return reply.whole(400, "application/json", R"({"error":{"message":"bad request"}})");
  const int64_t words = words_in(body["messages"][0].value("content", ""));
  const int64_t prompt_tokens =
      words + options_.template_tokens + (options_.split_every > 0 ? words / options_.split_every : 0);
  const auto total = body["max_tokens"].get<int64_t>();
  const auto chunk = [&](const json& delta, const json& reason, int64_t completed) {
    json out = {{"id", "chatcmpl-1"},
                {"object", "chat.completion.chunk"},
                {"choices", {{{"index", 0}, {"delta", delta}, {"finish_reason", reason}}}}};
    if (options_.continuous_usage) out["usage"] = {{"prompt_tokens", prompt_tokens}, {"completion_tokens", completed}};
    return event(out);
  };
  reply.head(200, "text/event-stream");
  reply.piece(chunk({{"role", "assistant"}, {"content", ""}}, nullptr, 0));
  for (int64_t sent = 0; sent < total && !reply.peer_gone();) {
    const int64_t committed = std::min(options_.tokens_per_event, total - sent);
    std::string text;
    for (int64_t i = 0; i < committed; ++i) text += " word";
    sent += committed;
    reply.piece(chunk({{"content", text}}, nullptr, sent));
  }
  reply.piece(chunk(json::object(), "length", total));
  reply.piece(event({{"id", "chatcmpl-1"},
                     {"choices", json::array()},
                     {"usage", {{"prompt_tokens", prompt_tokens}, {"completion_tokens", total}}}}));
  reply.piece("data: [DONE]\n\n");
  reply.end();
}

}  // namespace sweep::test

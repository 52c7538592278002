// Start, stop, and the ways in which a start fails.
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/support/catch.h"
#include "tests/support/environment.h"
#include "tests/unit/engine/http_client.h"
#include "tests/unit/engine/server_process.h"

using namespace sweep;
using namespace sweep::engine::embedded;

namespace {

constexpr const char* kLongPrompt =
    R"({"prompt":[5,6,7],"max_tokens":480,"ignore_eos":true,"stream":true,"temperature":0})";

struct Ended {
  int status = 0;
  std::string output;
};

Ended run_to_end(std::vector<std::string> command) {
  auto temp = base::TempDir::create().value();
  command.insert(command.begin(), SWEEPCTL_TEST_EMBEDDED);
  const pid_t pid = start_process(command, temp.path() / "log");
  int status = 0;
  ::waitpid(pid, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, base::read_file(temp.path() / "log").value()};
}

}  // namespace

TEST_CASE("server life: SIGTERM and SIGINT stop it at once with status 0, idle or in the middle of requests") {
  for (const int number : {SIGTERM, SIGINT}) {
    for (const bool busy : {false, true}) {
      ServerProcess server;
      REQUIRE(server.port() > 0);
      std::vector<std::unique_ptr<HttpClient>> clients;
      for (int i = 0; i < 20 && busy; ++i) {
        clients.push_back(std::make_unique<HttpClient>(server.port()));
        const std::string body = kLongPrompt;
        clients.back()->send("POST /v1/completions HTTP/1.1\r\nHost: t\r\nContent-Length: " +
                             std::to_string(body.size()) + "\r\n\r\n" + body);
      }
      server.signal(number);
      const int status = server.wait();
      CHECK(WIFEXITED(status));
      CHECK(WEXITSTATUS(status) == 0);
      CHECK(contains(server.log(), "\"stopping\""));
    }
  }
}

TEST_CASE("server life: with --with-parent it ends when its parent is killed") {
  auto temp = base::TempDir::create().value();
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    // The server inherits the writing end: it closes with the last process that holds it.
    start_process(serve_command(temp.path() / "port", {"--with-parent"}), temp.path() / "log");
    ::pause();
    ::_exit(0);
  }
  ::close(ends[1]);
  while (!std::filesystem::exists(temp.path() / "port")) ::usleep(1000);
  pollfd reader = {ends[0], POLLIN, 0};
  CHECK(::poll(&reader, 1, 700) == 0);  // alive as long as the parent is
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  CHECK(::poll(&reader, 1, 30'000) == 1);
  char byte = 0;
  CHECK(::read(ends[0], &byte, 1) == 0);
  ::close(ends[0]);
}

TEST_CASE("server life: the port file appears only when requests are answered") {
  ServerProcess server;
  REQUIRE(server.port() > 0);
  CHECK(HttpClient(server.port()).get("/health").status == 200);
  CHECK(contains(server.log(), "\"listening\""));
}

TEST_CASE("server life: a port that is taken, a missing model and a missing kernel library end it with status 3") {
  ServerProcess server;
  REQUIRE(server.port() > 0);
  const std::string model = small_model_folder().string();
  auto ended = run_to_end({"serve", "--model", model, "--kernels", SWEEPCTL_TEST_KERNELS, "--max-model-len", "500",
                           "--port", std::to_string(server.port())});
  CHECK(ended.status == 3);
  CHECK(contains(ended.output, "embedded/listen"));
  ended = run_to_end({"serve", "--model", "/nonexistent", "--kernels", SWEEPCTL_TEST_KERNELS});
  CHECK(ended.status == 3);
  CHECK(contains(ended.output, "embedded/model-invalid"));
  ended = run_to_end({"serve", "--model", model, "--kernels", "/nonexistent.so", "--max-model-len", "500"});
  CHECK(ended.status == 3);
  CHECK(contains(ended.output, "embedded/kernel-library"));
}

TEST_CASE("server life: a decoder that fails ends the server with status 3 and its reason, and every request with it") {
  const test::EnvironmentVariable fault("FLASHMLA_BROKEN", "refuses-valid");
  const test::EnvironmentVariable after("FLASHMLA_BROKEN_AFTER", "200");  // inside the request
  ServerProcess server({}, SWEEPCTL_TEST_BROKEN_KERNELS);
  REQUIRE(server.port() > 0);
  const auto reply = HttpClient(server.port()).post("/v1/completions", kLongPrompt);
  CHECK(contains(reply.body, "data: {\"id\""));  // it had begun
  CHECK(contains(reply.body, "flashmla_sparse_decode failed"));
  const int status = server.wait();
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 3);
  CHECK(contains(server.log(), R"("event":"error","rule":"embedded/kernel-failed")"));
  CHECK(contains(server.log(), R"("reason":"the engine failed")"));
  CHECK(contains(server.log(), "[embedded/kernel-failed]"));
}

TEST_CASE("server life: options that contradict each other are wrong usage") {
  const std::string model = small_model_folder().string();
  const std::vector<std::string> base = {"serve",           "--model", model, "--kernels", SWEEPCTL_TEST_KERNELS,
                                         "--max-model-len", "500"};
  for (const std::vector<std::string>& further : {std::vector<std::string>{"--acceptance", "explicit"},
                                                  {"--acceptance-length", "3"},
                                                  {"--acceptance", "explicit", "--acceptance-length", "9"},
                                                  {"--acceptance", "explicit", "--acceptance-length", "0"},
                                                  {"--acceptance", "golden"},
                                                  {"--num-draft-tokens", "8"},
                                                  {"--max-model-len", "9999"},
                                                  {"--threads", "0"},
                                                  {"--device", "cuda"},  // with kernels for a CPU
                                                  {"--device", "gpu"},
                                                  {"--tp-size", "2"},
                                                  {"--tp-size", "0"},
                                                  {"--port", "70000"},
                                                  {"--unknown"}}) {
    auto command = base;
    command.insert(command.end(), further.begin(), further.end());
    INFO(further.back());
    CHECK(run_to_end(command).status == 2);
  }
  CHECK(run_to_end({}).status == 2);
  CHECK(run_to_end({"--help"}).status == 0);
  CHECK(run_to_end({"--version"}).status == 0);
}

TEST_CASE("server life: make-model as a command writes the folder and refuses another's") {
  auto temp = base::TempDir::create().value();
  const std::string folder = (temp.path() / "m").string();
  CHECK(run_to_end({"make-model", folder}).status == 0);
  CHECK(std::filesystem::exists(temp.path() / "m" / "config.json"));
  CHECK(run_to_end({"make-model", folder}).status == 0);
  const auto refused = run_to_end({"make-model", folder, "--seed", "2"});
  CHECK(refused.status == 3);
  CHECK(contains(refused.output, "embedded/model-exists"));
  CHECK(run_to_end({"make-model", folder, "--shape", "v5"}).status == 2);
}

#include "orchestrator/weights/agree.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "orchestrator/diag/rules/file.h"
#include "orchestrator/diag/rules/weights.h"
#include "tests/support/catch.h"
#include "tests/support/test_dir.h"

namespace sweep::weights {

namespace {

namespace rule = diag::rule;

const std::string kRevision(40, 'a');
const std::string kPin(64, 'f');

std::string sha256(char digit) {
  return std::string(64, digit);
}

FileReport file(const std::string& path, char digit) {
  return {.path = path, .size = 7, .sha256 = sha256(digit), .status = FileStatus::kOk, .proof = Proof::kHashed};
}

Report report() {
  Report made{.model = "org/name", .revision = kRevision, .verified = true, .pin_sha256 = kPin};
  made.files = {file("config.json", '1'),
                file("generation_config.json", '2'),
                file("model-00001-of-00002.safetensors", '3'),
                file("model-00002-of-00002.safetensors", '4'),
                file("model.safetensors.index.json", '5'),
                file("tokenizer.json", '6'),
                file("README.md", '7')};
  return made;
}

std::vector<HostReport> hosts(size_t count) {
  std::vector<HostReport> all;
  for (size_t i = 0; i < count; ++i) {
    all.push_back({.host = fmt::format("node{}", i), .source = fmt::format("node{}.json", i), .report = report()});
    all.back().report.host = all.back().host;
  }
  return all;
}

FileReport& file_of(HostReport& host, const std::string& path) {
  const auto found = std::find_if(host.report.files.begin(), host.report.files.end(),
                                  [&](const FileReport& f) { return f.path == path; });
  REQUIRE(found != host.report.files.end());
  return *found;
}

void erase(HostReport& host, const std::string& path) {
  std::erase_if(host.report.files, [&](const FileReport& f) { return f.path == path; });
}

std::vector<std::string> rules_of(const Agreement& agreement) {
  std::vector<std::string> rules;
  for (const diag::Diagnostic& d : agreement.findings.items()) rules.emplace_back(d.rule.info().slug);
  return rules;
}
using RuleNames = std::vector<std::string>;

std::string messages(const Agreement& agreement) {
  std::string all;
  for (const diag::Diagnostic& d : agreement.findings.items()) {
    all += d.message + "\n";
    for (const diag::Note& note : d.notes) all += "  " + note.message + "\n";
  }
  return all;
}

std::string verdicts(const Agreement& agreement) {
  std::string all;
  for (const HostVerdict verdict : agreement.verdicts) all += std::string(host_verdict_name(verdict)) + ";";
  return all;
}

}  // namespace

TEST_CASE("agree: hosts with the same bytes agree, counted by what the files are for") {
  const Agreement agreement = agree(hosts(3));
  CHECK(agreement.agreed);
  CHECK(agreement.findings.empty());
  CHECK(agreement.differences.empty());
  CHECK(verdicts(agreement) == "agrees;agrees;agrees;");
  CHECK((agreement.identical_files == std::array<size_t, kContentClasses>{2, 1, 1, 2, 1}));
  CHECK(agreement.from_cache == 0);
}

TEST_CASE("agree: one host alone agrees with nobody") {
  CHECK_FALSE(agree(hosts(1)).agreed);
  CHECK_FALSE(agree({}).agreed);
}

TEST_CASE("agree: another digest names hosts, file and both digests") {
  const char* path = GENERATE("config.json", "generation_config.json", "tokenizer.json", "model.safetensors.index.json",
                              "model-00002-of-00002.safetensors", "README.md");
  auto all = hosts(2);
  const std::string before = *file_of(all[0], path).sha256;
  file_of(all[1], path).sha256 = sha256('b');
  const Agreement agreement = agree(all);
  CHECK_FALSE(agreement.agreed);
  CHECK(rules_of(agreement) == RuleNames{"weights/hosts-disagree"});
  const std::string text = messages(agreement);
  for (const std::string& part :
       {fmt::format("\"{}\" differs", path), "\"node0\" has SHA-256 " + before, "\"node1\" has SHA-256 " + sha256('b')})
    CHECK(contains(text, part));
  CHECK(agreement.findings.items()[0].path == path);
  CHECK(contains(agreement.findings.items()[0].help, "no side is in the majority"));
  CHECK(verdicts(agreement) == "differs;differs;");
  REQUIRE(agreement.differences.size() == 1);
  CHECK((agreement.differences[0].content == content_class(path)));
}

TEST_CASE("agree: of several hosts the minority is named first and is told to mend") {
  auto all = hosts(9);
  file_of(all[4], "config.json").sha256 = sha256('b');
  file_of(all[7], "config.json").sha256 = sha256('b');
  const Agreement agreement = agree(all);
  CHECK(messages(agreement) ==
        fmt::format("\"config.json\" differs: \"node4\" and \"node7\" have SHA-256 {}, \"node0\", "
                    "\"node1\", \"node2\", \"node3\" and 3 more have SHA-256 {} (7 of 9 hosts)\n",
                    sha256('b'), sha256('1')));
  CHECK(contains(agreement.findings.items()[0].help, "on \"node4\" and \"node7\""));
  CHECK(verdicts(agreement) == "agrees;agrees;agrees;agrees;differs;agrees;agrees;differs;agrees;");
}

TEST_CASE("agree: everything that differs is found at once") {
  auto all = hosts(3);
  all[1].report.revision = std::string(40, 'c');
  all[1].report.pin_sha256 = sha256('c');
  all[2].report.model = "org/other";
  file_of(all[0], "config.json").sha256 = sha256('b');
  erase(all[1], "tokenizer.json");
  file_of(all[2], "README.md").size = 8;
  const Agreement agreement = agree(all);
  CHECK(rules_of(agreement) == RuleNames(6, "weights/hosts-disagree"));
  const std::string text = messages(agreement);
  CHECK(contains(text, "different models: \"node2\" has org/other"));
  CHECK(contains(text, "different revisions: \"node1\" has " + std::string(40, 'c')));
  CHECK(contains(text, "different pins: \"node1\" has " + sha256('c')));
  CHECK(contains(text, "\"tokenizer.json\" differs: \"node1\" lacks it"));
  CHECK(contains(text, "(8 bytes)"));
  CHECK(verdicts(agreement) == "differs;differs;differs;");
  CHECK(agreement.differences.size() == 3);
}

TEST_CASE("agree: many opinions are cut short in the message, not in the document") {
  auto all = hosts(9);
  for (size_t i = 0; i < all.size(); ++i) file_of(all[i], "config.json").sha256 = sha256("0123456789"[i]);
  const Agreement agreement = agree(all);
  CHECK(contains(messages(agreement), "5 more say something else"));
  CHECK(agreement.differences.at(0).groups.size() == 9);
}

TEST_CASE("agree: a host that is not verified is named with its first findings, and still compared") {
  auto all = hosts(2);
  all[1].report.verified = false;
  FileReport& bad = file_of(all[1], "config.json");
  bad.sha256 = sha256('b');
  bad.status = FileStatus::kHashMismatch;
  for (const char* message : {"first", "second", "third", "fourth", "fifth"})
    all[1].report.findings.add(diag::make(rule::weights_hash_mismatch, message));
  const Agreement agreement = agree(all);
  CHECK_FALSE(agreement.agreed);
  const std::string text = messages(agreement);
  CHECK(contains(text, "\"node1\" is not verified: its verification found 5 errors"));
  CHECK(contains(text, "  first [weights/hash-mismatch]"));
  CHECK(contains(text, "  and 2 more"));
  CHECK(contains(text, "\"config.json\" differs"));
  CHECK(contains(text, "\"node1\" has SHA-256 " + sha256('b') + ", \"node0\" has SHA-256"));
  CHECK(contains(agreement.findings.items()[0].help, "fetch the file again on \"node1\""));
  CHECK(verdicts(agreement) == "agrees;not verified;");
}

TEST_CASE("agree: hosts that are not verified do not outvote one that is") {
  auto all = hosts(4);
  for (size_t i = 1; i < all.size(); ++i) {
    all[i].report.verified = false;
    file_of(all[i], "config.json").sha256 = sha256('b');
  }
  const Agreement agreement = agree(all);
  CHECK(verdicts(agreement) == "agrees;not verified;not verified;not verified;");
  CHECK(agreement.differences.at(0).groups.at(0).hosts == std::vector<size_t>{0});
}

TEST_CASE("agree: a host of which only download records were compared is not verified") {
  auto all = hosts(2);
  all[1].report.verified = false;
  for (FileReport& f : all[1].report.files) {
    f.sha256.reset();
    f.proof = Proof::kNone;
    f.status = FileStatus::kNotChecked;
  }
  const Agreement agreement = agree(all);
  CHECK(rules_of(agreement) == RuleNames{"weights/host-not-verified"});
  CHECK(contains(messages(agreement), "\"node1\" is not verified: the content of its files was not read"));
}

TEST_CASE("agree: an interrupted verification is not held against the files it did not get to") {
  auto all = hosts(2);
  all[0].report.verified = false;
  all[0].report.cancelled = true;
  FileReport& open = file_of(all[0], "README.md");
  open.status = FileStatus::kNotChecked;
  open.sha256.reset();
  const Agreement agreement = agree(all);
  CHECK(rules_of(agreement) == RuleNames{"weights/host-not-verified"});
  CHECK(contains(messages(agreement), "its verification was interrupted"));
  CHECK(agreement.identical_files[static_cast<size_t>(ContentClass::kOther)] == 0);
}

TEST_CASE("agree: a report that contradicts itself is not believed") {
  auto all = hosts(2);
  SECTION("a bad file under verified") {
    for (HostReport& host : all) file_of(host, "config.json").status = FileStatus::kHashMismatch;
    CHECK(contains(messages(agree(all)), "of \"config.json\" hash-mismatch"));
  }
  SECTION("a good file without a digest") {
    for (HostReport& host : all) file_of(host, "config.json").sha256.reset();
    CHECK(contains(messages(agree(all)), "gives no proof for \"config.json\""));
  }
  SECTION("a good file without a proof") {
    for (HostReport& host : all) file_of(host, "config.json").proof = Proof::kNone;
    CHECK(contains(messages(agree(all)), "gives no proof for \"config.json\""));
  }
  SECTION("errors under verified") {
    for (HostReport& host : all) host.report.findings.add(diag::make(rule::weights_missing_file, "x"));
    CHECK(contains(messages(agree(all)), "says verified, and has errors"));
  }
  SECTION("no file at all") {
    for (HostReport& host : all) host.report.files.clear();
    CHECK(contains(messages(agree(all)), "lists no pinned file"));
  }
  const Agreement agreement = agree(all);
  CHECK_FALSE(agreement.agreed);
  CHECK(rules_of(agreement) == RuleNames(2, "weights/host-not-verified"));
}

TEST_CASE("agree: SHA-256 here and git blob ids there are never taken for equal") {
  auto all = hosts(3);
  const auto only_git_blob = [](FileReport& f, char digit) {
    f.sha256.reset();
    f.git_blob = std::string(40, digit);
  };
  only_git_blob(file_of(all[1], "config.json"), 'e');
  Agreement agreement = agree(all);
  CHECK_FALSE(agreement.agreed);
  CHECK(rules_of(agreement) == RuleNames{"weights/not-comparable"});
  CHECK(contains(messages(agreement), "\"node1\" has git blob id " + std::string(40, 'e')));
  CHECK_FALSE(agreement.differences.at(0).comparable);

  file_of(all[2], "config.json").git_blob = std::string(40, 'e');  // has both: ties them together
  CHECK(agree(all).agreed);
  file_of(all[2], "config.json").git_blob = std::string(40, 'd');
  agreement = agree(all);
  CHECK(rules_of(agreement) == RuleNames{"weights/hosts-disagree"});
  CHECK(contains(messages(agreement), "\"config.json\" differs"));
  for (HostReport& host : all) only_git_blob(file_of(host, "config.json"), 'e');
  CHECK(agree(all).agreed);
}

TEST_CASE("agree: a host given twice, files in no pin and reports without a pin are warnings") {
  auto all = hosts(3);
  all[2].host = "node0";
  all[1].report.pin_sha256.clear();
  FileReport extra = file("notes.txt", '9');
  extra.status = FileStatus::kExtra;
  all[1].report.files.push_back(extra);
  const Agreement agreement = agree(all);
  CHECK(agreement.agreed);
  CHECK(agreement.findings.warning_count() == 3);
  const std::string text = messages(agreement);
  CHECK(contains(text, "2 reports are of host \"node0\": node0.json, node2.json"));
  CHECK(contains(text, "\"notes.txt\" is in no pin and lies on \"node1\""));
  CHECK(contains(text, "\"node1\" does not say which pin was used"));
}

TEST_CASE("agree: what came from the verification cache is counted by host") {
  auto all = hosts(4);
  file_of(all[1], "config.json").proof = Proof::kCached;
  file_of(all[1], "README.md").proof = Proof::kCached;
  file_of(all[3], "README.md").proof = Proof::kCached;
  const Agreement agreement = agree(all);
  CHECK(agreement.agreed);
  CHECK(agreement.from_cache == 2);
  CHECK(to_json(agreement, all)["hosts_from_cache"] == 2);
  CHECK(to_json(agreement, all)["hosts"][1]["from_cache"] == true);
}

TEST_CASE("agree: the document names hosts, what they have in common and what differs") {
  auto all = hosts(3);
  file_of(all[1], "config.json").sha256 = sha256('b');
  const Agreement agreement = agree(all);
  const auto json = to_json(agreement, all);
  CHECK(json["schema_version"] == kAgreementVersion);
  CHECK(json["agreed"] == false);
  CHECK(json["revision"] == kRevision);
  CHECK(json["hosts"][1]["verdict"] == "differs");
  CHECK(json["hosts"][1]["bytes"] == 49);
  CHECK(json["identical"] ==
        nlohmann::json({{"config", 1}, {"tokenizer", 1}, {"index", 1}, {"shard", 2}, {"other", 1}}));
  const auto& difference = json["differences"][0];
  CHECK(difference["path"] == "config.json");
  CHECK(difference["content"] == "config");
  CHECK(difference["groups"][1]["hosts"] == nlohmann::json({"node1"}));
  CHECK(difference["groups"][1]["sha256"] == sha256('b'));
  CHECK(json["errors"] == 1);
  all[0].report.revision = std::string(40, 'd');
  CHECK(to_json(agree(all), all)["revision"].is_null());
}

TEST_CASE("agree: a thousand hosts are compared by one pass over their files") {
  auto all = hosts(1000);
  for (HostReport& host : all)
    for (int i = 0; i < 60; ++i) host.report.files.push_back(file(fmt::format("shard-{}.safetensors", i), '8'));
  CHECK(agree(all).agreed);
  file_of(all[617], "shard-59.safetensors").sha256 = sha256('b');
  const Agreement agreement = agree(all);
  CHECK(contains(messages(agreement), "\"node617\" has SHA-256 " + sha256('b')));
  CHECK(contains(messages(agreement), "and 995 more have"));
}

TEST_CASE("agree: any one change of any one host is found") {
  const std::vector<std::string> paths = [] {
    std::vector<std::string> names;
    for (const FileReport& f : report().files) names.push_back(f.path);
    return names;
  }();
  for (size_t victim = 0; victim < 4; ++victim)
    for (const std::string& path : paths) {
      CAPTURE(victim, path);
      auto all = hosts(4);
      file_of(all[victim], path).sha256 = sha256('b');
      CHECK_FALSE(agree(all).agreed);
      all = hosts(4);
      file_of(all[victim], path).size = 6;
      CHECK_FALSE(agree(all).agreed);
      all = hosts(4);
      erase(all[victim], path);
      CHECK_FALSE(agree(all).agreed);
      all = hosts(4);
      file_of(all[victim], path).status = FileStatus::kNotPinned;
      CHECK_FALSE(agree(all).agreed);
    }
}

TEST_CASE("content class: by the name of the file") {
  using enum ContentClass;
  const std::vector<std::pair<std::string, ContentClass>> cases{{"config.json", kConfig},
                                                                {"text_encoder/config.json", kConfig},
                                                                {"generation_config.json", kConfig},
                                                                {"tokenizer.json", kTokenizer},
                                                                {"tokenizer_config.json", kTokenizer},
                                                                {"tokenizer.model", kTokenizer},
                                                                {"spiece.model", kTokenizer},
                                                                {"qwen.tiktoken", kTokenizer},
                                                                {"vocab.json", kTokenizer},
                                                                {"merges.txt", kTokenizer},
                                                                {"special_tokens_map.json", kTokenizer},
                                                                {"chat_template.jinja", kTokenizer},
                                                                {"model.safetensors.index.json", kIndex},
                                                                {"model-00001-of-00048.safetensors", kShard},
                                                                {"pytorch_model.bin", kShard},
                                                                {"README.md", kOther},
                                                                {"modeling_x.py", kOther},
                                                                {"config.json/x", kOther}};
  std::set<ContentClass> seen;
  for (const auto& [path, expected] : cases) {
    CAPTURE(path);
    CHECK((content_class(path) == expected));
    seen.insert(expected);
  }
  CHECK(seen.size() == kContentClasses);
}

TEST_CASE("host report: read from a file or a run's folder, named by itself or by the file") {
  const test::TestDir dir;
  Report named = report();
  named.host = "node7";
  dir.write("a.json", to_json(named).dump());
  dir.write("bundle/weights.json", to_json(report()).dump());
  const auto first = read_host_report(dir / "a.json");
  REQUIRE(first.has_value());
  CHECK(first->host == "node7");
  CHECK(first->source == (dir / "a.json").generic_string());
  const auto second = read_host_report(dir / "bundle");
  REQUIRE(second.has_value());
  CHECK(second->host == (dir / "bundle").generic_string());
  CHECK(second->source == (dir / "bundle/weights.json").generic_string());
}

TEST_CASE("host report: what is no report is refused with its name") {
  const test::TestDir dir;
  for (const char* text : {"", "{", "[]", "null", "{\"schema_version\": 1}", "\xff\xfe"}) {
    CAPTURE(text);
    const auto report = read_host_report(dir.write("a.json", text));
    REQUIRE_FALSE(report.has_value());
    CHECK(report.error().rule == rule::file_malformed);
    CHECK(report.error().where->file == (dir / "a.json").generic_string());
  }
  CHECK(read_host_report(dir / "absent.json").error().rule == rule::file_unreadable);
  std::filesystem::create_directory(dir / "empty");
  CHECK(contains(read_host_report(dir / "empty").error().message, "weights.json"));
}

}  // namespace sweep::weights

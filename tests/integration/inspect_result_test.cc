// `inspect result` on the bundle of a real run: everything is computed again from the raw records beside it.
#include "tests/integration/small_checkout.h"
#include "tests/support/catch.h"

using namespace sweep;
using namespace sweep::test;
using nlohmann::json;

namespace {

json inspected(const SmallCheckout& checkout, int code) {
  const Ran ran = checkout.sweepctl({"inspect", "result", checkout.out().string(), "--format", "json"});
  INFO(ran.output);
  CHECK(ran.code == code);
  json document = json::parse(ran.output, nullptr, false);
  REQUIRE(document.is_object());
  return document;
}

void write(const SmallCheckout& checkout, const std::string& name, const json& content) {
  REQUIRE(base::write_file_atomic(checkout.out() / name, content.dump(2)).has_value());
}

bool has_difference(const json& document, const std::string& field) {
  for (const json& d : document["differences"])
    if (d["field"] == field) return true;
  return false;
}

}  // namespace

TEST_CASE("inspect result: a run's result follows from its records, and what was changed is named") {
  const SmallCheckout checkout;
  const Ran ran = checkout.run();
  INFO(ran.output);
  REQUIRE(ran.code == 0);
  const json stated = checkout.json("result.json");
  CHECK(stated["power"] == json({{"measured", false}, {"reason", "no GPU was used"}}));

  const json good = inspected(checkout, 0);
  CHECK(good["valid"] == true);
  CHECK(good["differences"].empty());
  CHECK(good["latency_ms"]["ttft"] == stated["latency_ms"]["ttft"]);
  CHECK(good["output_tput_per_gpu"].is_null());
  CHECK(good["diagnostics"].empty());

  SECTION("a latency that was made better") {
    json edited = stated;
    edited["latency_ms"]["tpot"]["mean"] = stated["latency_ms"]["tpot"]["mean"].get<double>() * 0.999;
    edited["latency_ms"]["tpot"]["min"] = stated["latency_ms"]["tpot"]["min"].get<double>() * 0.9;
    write(checkout, "result.json", edited);
    const json document = inspected(checkout, 5);
    CHECK(document["valid"] == false);
    CHECK(document["differences"].size() == 2);
    CHECK(has_difference(document, "latency_ms.tpot.mean"));
    CHECK(document["diagnostics"][0]["rule"] == "result/differs");
  }
  SECTION("a request that failed after all") {
    std::string text = checkout.text("requests.jsonl");
    const std::string clean = "\"problems\":[]";
    const size_t at = text.rfind(clean);
    REQUIRE(at != std::string::npos);
    text.replace(at, clean.size(), R"("problems":[{"rule":"load/timeout","message":"no reply"}])");
    REQUIRE(base::write_file_atomic(checkout.out() / "requests.jsonl", text).has_value());
    const json document = inspected(checkout, 5);
    CHECK(has_difference(document, "workload.failed_requests"));
    CHECK(has_difference(document, "conditions.judge/requests"));
    CHECK(has_difference(document, "valid"));
  }
  SECTION("counters of another run") {
    json measurement = checkout.json("measurement.json");
    json& counted = measurement["counted"];
    REQUIRE(counted.is_object());
    counted["accepted"] = counted["accepted"].get<int64_t>() + 1000;
    write(checkout, "measurement.json", measurement);
    const json document = inspected(checkout, 5);
    CHECK(has_difference(document, "acceptance.realised"));
    CHECK(has_difference(document, "counted.accepted"));  // against the engine's own pages
  }
  SECTION("a verdict that does not follow") {
    json edited = stated;
    edited["conditions"][0]["outcome"] = "failed";
    write(checkout, "result.json", edited);
    const json document = inspected(checkout, 5);
    CHECK(document["diagnostics"].dump().find("result/verdict") != std::string::npos);
  }
  SECTION("the records are gone") {
    std::filesystem::remove(checkout.out() / "requests.jsonl");
    const json document = inspected(checkout, 0);
    CHECK(document["diagnostics"][0]["rule"] == "result/not-recomputed");
    CHECK(document["diagnostics"][0]["severity"] == "note");
  }
  SECTION("documents of another shape") {
    write(checkout, "measurement.json", {{"window", 7}, {"log", "x"}, {"counted", {1}}, {"telemetry", 3}});
    const Ran other = checkout.sweepctl({"inspect", "result", checkout.out().string()});
    INFO(other.output);
    CHECK((other.code == 0 || other.code == 5 || other.code == 1));
  }
  SECTION("a field of the wrong type") {
    json edited = stated;
    edited["valid"] = "yes";
    write(checkout, "result.json", edited);
    CHECK(!inspected(checkout, 1).contains("gpus"));
  }
}

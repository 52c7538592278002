#include "orchestrator/schema/points.h"

#include "tests/support/catch.h"

using namespace sweep;

namespace {

schema::Point range(int64_t start, int64_t end) {
  schema::Point point;
  point.conc_start = {start, {}, true};
  point.conc_end = {end, {}, true};
  return point;
}

}  // namespace

TEST_CASE("points: a range multiplies by the step and always ends at its end") {
  CHECK(schema::concurrencies_of(range(4, 50), 3) == std::vector<int64_t>{4, 12, 36, 50});
  CHECK(schema::concurrencies_of(range(1, 8)) == std::vector<int64_t>{1, 2, 4, 8});
  CHECK(schema::concurrencies_of(range(5, 5)) == std::vector<int64_t>{5});
  CHECK(schema::concurrencies_of(range(8, 4)).empty());
}

TEST_CASE("points: a list is kept in its order") {
  schema::Point point;
  point.conc_list = std::vector<schema::Integer>{{8, {}, true}, {1, {}, true}};
  CHECK(schema::concurrencies_of(point) == std::vector<int64_t>{8, 1});
}

TEST_CASE("points: huge ranges end") {
  CHECK(schema::concurrencies_of(range(1, INT64_MAX)).size() < 70);
  CHECK(schema::concurrencies_of(range(1, INT64_MAX), 1).empty());
}

TEST_CASE("points: GPUs are tp x pp x pcp-size, or those of all workers") {
  schema::Point single;
  single.tp = {4, {}, true};
  single.pp = {2, {}, true};
  single.ep = {8, {}, true};
  CHECK(single.gpus() == 8);
  schema::Point multi;
  multi.prefill.emplace().num_worker = {2, {}, true};
  multi.prefill->tp = {8, {}, true};
  multi.decode.emplace().num_worker = {1, {}, true};
  multi.decode->tp = {16, {}, true};
  CHECK(multi.gpus() == 32);
}

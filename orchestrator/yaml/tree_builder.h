// Receives the YAML library's events and builds the located tree. Private to this module.
#pragma once

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/mark.h>

#include <map>
#include <string>
#include <vector>

#include "orchestrator/diag/diagnostic.h"
#include "orchestrator/yaml/document.h"
#include "orchestrator/yaml/parse.h"

namespace sweep::yaml {

// Thrown through the library to end parsing early; the reason has been reported.
struct StopParsing {};

class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(const Document& document, const std::string& parsed_text, const Limits& limits, diag::Diagnostics& out)
      : document_(document), text_(parsed_text), limits_(limits), out_(out) {}

  void OnDocumentStart(const YAML::Mark& mark) override;
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override;
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override;
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override;
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override;
  void OnSequenceEnd() override;
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override;
  void OnMapEnd() override;

  Node take_root() { return std::move(root_); }

 private:
  struct Frame {
    Node node;
    YAML::anchor_t anchor = 0;
    bool expects_value = false;    // of a mapping: a key waits for its value
    bool is_key = false;           // a collection in the place of a key: reported, then dropped
    std::vector<size_t> unusable;  // entries without a usable key: reported, then dropped
    uint32_t height = 1;           // levels of the deepest child so far, this one included
    std::vector<Range> merge_keys;
  };
  struct Anchored {
    Node node;
    uint32_t size = 1;    // nodes in it
    uint32_t height = 1;  // levels in it
  };

  uint32_t offset(const YAML::Mark& mark) const;
  uint32_t skip_properties(uint32_t at) const;
  Range scalar_range(uint32_t at, const std::string& value, bool quoted) const;
  void check_tag(uint32_t at, const std::string& tag);
  void open(Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor);
  void close();
  void count_nodes(uint32_t number, uint32_t at);
  void accept(Node node, YAML::anchor_t anchor, uint32_t height);
  void accept_key(Frame& frame, Node node);
  void finish_map(Frame& frame);
  void report_duplicates(Node& map);
  void apply_merges(Node& map);
  void remember(const Node& node, YAML::anchor_t anchor, uint32_t height);
  void report(diag::RuleId rule, Range range, std::string message, std::string help = {});

  const Document& document_;
  const std::string& text_;
  const Limits& limits_;
  diag::Diagnostics& out_;
  std::vector<Frame> stack_;
  std::map<YAML::anchor_t, Anchored> anchors_;
  Node root_;
  bool started_ = false;
  uint32_t nodes_ = 0;
  uint32_t alias_nodes_ = 0;
};

}  // namespace sweep::yaml

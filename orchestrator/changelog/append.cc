#include "orchestrator/changelog/append.h"

namespace sweep::changelog {

std::optional<std::string> append_entry(const std::optional<Revision>& current, const NewEntry& entry,
                                        const Policy& policy, diag::Diagnostics& out) {
  if (current) {
    diag::Diagnostics found;
    const schema::ChangelogFile file = schema::read_changelog(current->name, current->text, found);
    if (!file.valid) {
      out.add_all(found);
      return std::nullopt;
    }
  }
  const auto text = to_yaml(entry);
  if (!text) {
    out.add(text.error());
    return std::nullopt;
  }
  const Revision head{current ? current->name : "changelog", appended(current ? current->text : "", *text)};
  if (!compare(current, head, policy, out).accepted) return std::nullopt;
  return head.text;
}

}  // namespace sweep::changelog

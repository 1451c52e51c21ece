#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct yaml_node_s;  // yaml_node_t in <yaml.h>

namespace meshwright {

// The place of a mistake in a YAML text, counted from 1, and the mistake in libyaml's words.
struct YamlProblem {
  std::size_t line = 1;
  std::size_t column = 1;
  std::string text = {};  // never empty
};

// The documents of a YAML text, one after the other. The text must outlive it. Nodes are of the
// document that was read last.
class YamlDocuments {
 public:
  explicit YamlDocuments(std::string_view text);
  ~YamlDocuments();
  YamlDocuments(const YamlDocuments&) = delete;
  YamlDocuments& operator=(const YamlDocuments&) = delete;

  // Reads the next document; behind the last one its root is null. Returns the reason if there is
  // none.
  std::optional<YamlProblem> Load();

  yaml_node_s* Root();
  yaml_node_s& Node(int index);

 private:
  struct Parser;  // the parser and its document, which are C types
  std::unique_ptr<Parser> parser_;
};

// Returns the text of a scalar.
std::string_view ScalarText(const yaml_node_s& node);

}  // namespace meshwright

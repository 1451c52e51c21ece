#include "server/tuner/import/text/yaml_document.h"

#include <yaml.h>

namespace meshwright {

struct YamlDocuments::Parser {
  yaml_parser_t parser = {};
  yaml_document_t document = {};
  bool is_ready = false;
};

YamlDocuments::YamlDocuments(std::string_view text) : parser_(std::make_unique<Parser>()) {
  parser_->is_ready = yaml_parser_initialize(&parser_->parser) != 0;
  if (!parser_->is_ready) return;
  yaml_parser_set_input_string(&parser_->parser,
                               reinterpret_cast<const unsigned char*>(text.data()), text.size());
}

YamlDocuments::~YamlDocuments() {
  yaml_document_delete(&parser_->document);
  if (parser_->is_ready) yaml_parser_delete(&parser_->parser);
}

std::optional<YamlProblem> YamlDocuments::Load() {
  yaml_parser_t& parser = parser_->parser;
  yaml_document_delete(&parser_->document);
  if (!parser_->is_ready) return YamlProblem{.text = "libyaml has no memory"};
  if (yaml_parser_load(&parser, &parser_->document) != 0) return std::nullopt;
  return YamlProblem{.line = parser.problem_mark.line + 1,
                     .column = parser.problem_mark.column + 1,
                     .text = parser.problem == nullptr ? "cannot be read" : parser.problem};
}

yaml_node_t* YamlDocuments::Root() { return yaml_document_get_root_node(&parser_->document); }

yaml_node_t& YamlDocuments::Node(int index) {
  return *yaml_document_get_node(&parser_->document, index);
}

std::string_view ScalarText(const yaml_node_t& node) {
  return {reinterpret_cast<const char*>(node.data.scalar.value), node.data.scalar.length};
}

}  // namespace meshwright

#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace meshwright {

// Small readers of the formats that exports have; just enough for what the exporters write.

// Reads a scalar or a list in one line: JSON, or else plain words as YAML has them.
inline nlohmann::json ReadValue(const std::string& text) {
  nlohmann::json value = nlohmann::json::parse(text, nullptr, false);
  if (!value.is_discarded()) return value;
  if (!text.starts_with('[')) return text;
  nlohmann::json list = nlohmann::json::array();
  std::istringstream items(text.substr(1, text.size() - 2));
  for (std::string item; std::getline(items, item, ',');) {
    list.push_back(ReadValue(item.substr(item.find_first_not_of(' '))));
  }
  return list;
}

inline nlohmann::json ReadToml(const std::string& text) {
  nlohmann::json root = nlohmann::json::object();
  nlohmann::json* table = &root;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    if (line.front() == '[') {
      table = &root;
      std::istringstream names(line.substr(1, line.size() - 2));
      for (std::string name; std::getline(names, name, '.');) table = &(*table)[name];
      continue;
    }
    const std::size_t equals = line.find(" = ");
    (*table)[line.substr(0, equals)] = nlohmann::json::parse(line.substr(equals + 3));
  }
  return root;
}

// Reads mappings whose nested mappings are indented by two spaces.
inline nlohmann::json ReadYaml(const std::string& text) {
  nlohmann::json root = nlohmann::json::object();
  std::vector<nlohmann::json*> open = {&root};  // by depth
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t indent = line.find_first_not_of(' ');
    open.resize(indent / 2 + 1);
    const std::size_t colon = line.find(':', indent);
    nlohmann::json& value = (*open.back())[line.substr(indent, colon - indent)];
    if (colon + 1 == line.size()) {
      value = nlohmann::json::object();
      open.push_back(&value);
    } else {
      value = ReadValue(line.substr(colon + 2));
    }
  }
  return root;
}

// Reads "--flag value \" lines; a switch has an empty value.
inline std::map<std::string, std::string> ReadFlags(const std::string& text) {
  std::map<std::string, std::string> flags;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with(" \\")) line.resize(line.size() - 2);
    const std::size_t space = line.find(' ');
    flags[line.substr(0, space)] = space == std::string::npos ? "" : line.substr(space + 1);
  }
  return flags;
}

}  // namespace meshwright

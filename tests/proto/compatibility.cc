#include "tests/proto/compatibility.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.pb.h>

#include <algorithm>
#include <map>
#include <string_view>

namespace meshwright {
namespace {

using google::protobuf::DescriptorProto;
using google::protobuf::EnumDescriptorProto;
using google::protobuf::EnumValueDescriptorProto;
using google::protobuf::FieldDescriptorProto;
using google::protobuf::FileDescriptorProto;
using google::protobuf::FileDescriptorSet;
using google::protobuf::MethodDescriptorProto;
using google::protobuf::ServiceDescriptorProto;

// The definitions in a set of files, by full name.
struct Definitions {
  std::map<std::string, const DescriptorProto*> messages = {};
  std::map<std::string, const EnumDescriptorProto*> enums = {};
  std::map<std::string, const ServiceDescriptorProto*> services = {};
};

void AddMessage(const DescriptorProto& message, const std::string& scope, Definitions& out) {
  const std::string name = fmt::format("{}.{}", scope, message.name());
  out.messages[name] = &message;
  for (const DescriptorProto& nested : message.nested_type()) AddMessage(nested, name, out);
  for (const EnumDescriptorProto& nested : message.enum_type()) {
    out.enums[fmt::format("{}.{}", name, nested.name())] = &nested;
  }
}

Definitions DefinitionsOf(const FileDescriptorSet& files) {
  Definitions out;
  for (const FileDescriptorProto& file : files.file()) {
    for (const DescriptorProto& message : file.message_type()) {
      AddMessage(message, file.package(), out);
    }
    for (const EnumDescriptorProto& one : file.enum_type()) {
      out.enums[fmt::format("{}.{}", file.package(), one.name())] = &one;
    }
    for (const ServiceDescriptorProto& service : file.service()) {
      out.services[fmt::format("{}.{}", file.package(), service.name())] = &service;
    }
  }
  return out;
}

template <typename Elements, typename Element = typename Elements::value_type>
const Element* Numbered(const Elements& elements, int number) {
  const auto found = std::ranges::find(elements, number, &Element::number);
  return found == elements.end() ? nullptr : &*found;
}

// The end of a message's range is the number after its last one; that of an enum's range is its
// last one.
bool IsReserved(const DescriptorProto& message, int number) {
  return std::ranges::any_of(message.reserved_range(), [&](const auto& range) {
    return range.start() <= number && number < range.end();
  });
}
bool IsReserved(const EnumDescriptorProto& one, int number) {
  return std::ranges::any_of(one.reserved_range(), [&](const auto& range) {
    return range.start() <= number && number <= range.end();
  });
}

template <typename Owner>
bool IsReserved(const Owner& owner, std::string_view name) {
  return std::ranges::find(owner.reserved_name(), name) != owner.reserved_name().end();
}

// Returns an empty string for a field outside any oneof. The synthetic oneof of `optional` does not
// count.
std::string OneofOf(const FieldDescriptorProto& field, const DescriptorProto& message) {
  if (!field.has_oneof_index() || field.proto3_optional()) return "";
  return message.oneof_decl(field.oneof_index()).name();
}

std::string TypeOf(const FieldDescriptorProto& field) {
  if (!field.type_name().empty()) return field.type_name();
  return FieldDescriptorProto::Type_Name(field.type());
}

std::string LabelOf(const FieldDescriptorProto& field) {
  if (field.label() == FieldDescriptorProto::LABEL_REPEATED) return "repeated";
  return field.proto3_optional() ? "optional" : "without presence";
}

class Comparison {
 public:
  explicit Comparison(std::vector<std::string>& broken) : broken_(broken) {}

  void CompareMessage(const std::string& name, const DescriptorProto& old,
                      const DescriptorProto& now) {
    for (const FieldDescriptorProto& field : old.field()) {
      const FieldDescriptorProto* const same = Numbered(now.field(), field.number());
      const std::string what = fmt::format("{}.{} = {}", name, field.name(), field.number());
      if (same == nullptr) {
        ReportRemoved(what, field, now);
        continue;
      }
      Compare(what, "name", field.name(), same->name());
      Compare(what, "type", TypeOf(field), TypeOf(*same));
      Compare(what, "label", LabelOf(field), LabelOf(*same));
      Compare(what, "oneof", OneofOf(field, old), OneofOf(*same, now));
    }
    CompareReserved(name, old, now, now.field());
  }

  void CompareEnum(const std::string& name, const EnumDescriptorProto& old,
                   const EnumDescriptorProto& now) {
    for (const EnumValueDescriptorProto& value : old.value()) {
      const EnumValueDescriptorProto* const same = Numbered(now.value(), value.number());
      const std::string what = fmt::format("{}.{} = {}", name, value.name(), value.number());
      if (same == nullptr) {
        ReportRemoved(what, value, now);
      } else {
        Compare(what, "name", value.name(), same->name());
      }
    }
    CompareReserved(name, old, now, now.value());
  }

  void CompareService(const std::string& name, const ServiceDescriptorProto& old,
                      const ServiceDescriptorProto& now) {
    for (const MethodDescriptorProto& method : old.method()) {
      const std::string what = fmt::format("{}.{}", name, method.name());
      const auto same =
          std::ranges::find(now.method(), method.name(), &MethodDescriptorProto::name);
      if (same == now.method().end()) {
        Report(what, "was removed");
        continue;
      }
      Compare(what, "request", method.input_type(), same->input_type());
      Compare(what, "response", method.output_type(), same->output_type());
      Compare(what, "request stream", fmt::format("{}", method.client_streaming()),
              fmt::format("{}", same->client_streaming()));
      Compare(what, "response stream", fmt::format("{}", method.server_streaming()),
              fmt::format("{}", same->server_streaming()));
    }
  }

  void Report(const std::string& what, std::string_view how) {
    broken_.push_back(fmt::format("{} {}", what, how));
  }

 private:
  void Compare(const std::string& what, std::string_view part, const std::string& old,
               const std::string& now) {
    if (old != now) Report(what, fmt::format("has another {}: {}, was {}", part, now, old));
  }

  template <typename Element, typename Owner>
  void ReportRemoved(const std::string& what, const Element& element, const Owner& now) {
    if (!IsReserved(now, element.number()) || !IsReserved(now, element.name())) {
      Report(what, "was removed and its number and name are not reserved");
    }
  }

  // Reserved names and numbers must stay reserved and unused.
  template <typename Owner, typename Elements>
  void CompareReserved(const std::string& name, const Owner& old, const Owner& now,
                       const Elements& elements) {
    for (const auto& range : old.reserved_range()) {
      if (!IsReserved(now, range.start())) {
        Report(name, fmt::format("reserves {} no more", range.start()));
      }
    }
    for (const std::string& reserved : old.reserved_name()) {
      if (!IsReserved(now, reserved)) Report(name, fmt::format("reserves {} no more", reserved));
    }
    for (const auto& element : elements) {
      if (IsReserved(old, element.number()) || IsReserved(old, element.name())) {
        Report(fmt::format("{}.{} = {}", name, element.name(), element.number()),
               "takes a number or name that is reserved");
      }
    }
  }

  std::vector<std::string>& broken_;
};

}  // namespace

std::vector<std::string> BrokenBy(const FileDescriptorSet& baseline,
                                  const FileDescriptorSet& current) {
  const Definitions old = DefinitionsOf(baseline);
  const Definitions now = DefinitionsOf(current);
  std::vector<std::string> broken;
  Comparison comparison(broken);
  const auto compare = [&](const auto& before, const auto& after, auto each) {
    for (const auto& [name, definition] : before) {
      const auto same = after.find(name);
      if (same == after.end()) {
        comparison.Report(name, "was removed");
      } else {
        (comparison.*each)(name, *definition, *same->second);
      }
    }
  };
  compare(old.messages, now.messages, &Comparison::CompareMessage);
  compare(old.enums, now.enums, &Comparison::CompareEnum);
  compare(old.services, now.services, &Comparison::CompareService);
  return broken;
}

}  // namespace meshwright

#include "server/http/addresses.h"

#include <fmt/format.h>

#include <cstddef>

#include "search_space/base/status.h"

namespace meshwright {

std::optional<NamedValues> MatchAddress(std::string_view address,
                                        std::span<const std::string> path) {
  const auto forms = DecodePath(address);
  if (!forms.has_value() || forms->size() != path.size()) return std::nullopt;
  NamedValues fields;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const std::string_view form = (*forms)[i];
    if (!form.starts_with('{')) {
      if (form != path[i]) return std::nullopt;
      continue;
    }
    const std::size_t end = form.find('}');
    const std::string_view verb = form.substr(end + 1);  // empty, or ":watch"
    const std::string_view value = path[i];
    if (value.size() <= verb.size() || !value.ends_with(verb)) return std::nullopt;
    fields.emplace_back(form.substr(1, end - 1), value.substr(0, value.size() - verb.size()));
  }
  return fields;
}

absl::Status BadEncoding() {
  return InvalidFields({{.field = "address", .description = "has a bad %-encoding"}});
}

absl::Status UnknownAddress(std::string_view path) {
  return WithReason(absl::NotFoundError(
                        fmt::format("nothing is at '{}'; docs/http.md lists the addresses", path)),
                    "UNKNOWN_ADDRESS");
}

}  // namespace meshwright

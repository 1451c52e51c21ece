#include "server/auth/callers.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/digest/base_encoding.h"
#include "search_space/digest/sha256.h"

namespace meshwright {
namespace {

constexpr std::string_view kTokenPrefix = "sha256:";
constexpr std::string_view kCertificatePrefix = "cert:";
constexpr std::size_t kDigestDigits = 64;

struct RoleWord {
  Role role;
  std::string_view word;
};

constexpr std::array kRoles = {
    RoleWord{Role::kViewer, "viewer"}, RoleWord{Role::kSubmitter, "submitter"},
    RoleWord{Role::kOperator, "operator"}, RoleWord{Role::kAdmin, "admin"}};

std::optional<Role> RoleOf(std::string_view word) {
  const auto* const row = std::ranges::find(kRoles, word, &RoleWord::word);
  if (row == kRoles.end()) return std::nullopt;
  return row->role;
}

bool IsDigest(std::string_view text) {
  return text.size() == kDigestDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::vector<std::string> WordsOf(const std::string& line) {
  std::istringstream stream(line);
  return {std::istream_iterator<std::string>(stream), {}};
}

// Returns true if the text is the word, in letters of either case.
bool IsWord(std::string_view text, std::string_view word) {
  return std::ranges::equal(text, word, [](char a, char b) { return std::tolower(a) == b; });
}

absl::Status Unusable(const std::string& path, std::string_view why) {
  return InvalidFields({{.field = "callers", .description = fmt::format("'{}'; {}", path, why)}});
}

}  // namespace

std::string_view Word(Role role) { return std::ranges::find(kRoles, role, &RoleWord::role)->word; }

absl::StatusOr<CallerList> CallerList::Load(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) return Unusable(path, "cannot be read");
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return Unusable(path, "others than its owner may write it; chmod go-w");
  }
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) return Unusable(path, "cannot be read");
  return Parse(text.str(), path);
}

absl::StatusOr<CallerList> CallerList::Parse(std::string_view text, const std::string& path) {
  CallerList list;
  std::vector<FieldViolation> violations;
  int number = 0;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::vector<std::string> words = WordsOf(line);
    if (words.empty() || words.front().starts_with('#')) continue;
    // The line itself is not repeated: it may hold a token by mistake.
    const auto refuse = [&](std::string_view rule) {
      violations.push_back({.field = fmt::format("callers line {}", number),
                            .description = fmt::format("in '{}'; {}", path, rule)});
    };
    if (words.size() != 3) {
      refuse("must have a name, a role, and sha256:DIGEST or cert:NAME");
      continue;
    }
    const auto role = RoleOf(words[1]);
    if (!role.has_value()) {
      refuse("the role must be viewer, submitter, operator or admin");
      continue;
    }
    const KnownCaller caller = {.name = words[0], .role = *role};
    const std::string_view proof = words[2];
    bool is_new = true;
    if (proof.starts_with(kTokenPrefix) && IsDigest(proof.substr(kTokenPrefix.size()))) {
      is_new = list.tokens_.emplace(proof.substr(kTokenPrefix.size()), caller).second;
    } else if (proof.starts_with(kCertificatePrefix) && proof.size() > kCertificatePrefix.size()) {
      is_new = list.certificates_.emplace(proof.substr(kCertificatePrefix.size()), caller).second;
    } else {
      refuse(
          "the last word must be sha256: with 64 lower-case hexadecimal digits, or cert: with a "
          "name");
    }
    if (!is_new) refuse("the same token or certificate stands in an earlier line");
  }
  if (!violations.empty()) return InvalidFields(violations);
  if (list.tokens_.empty() && list.certificates_.empty()) return Unusable(path, "names no caller");
  return list;
}

std::optional<KnownCaller> CallerList::OfToken(std::string_view token) const {
  const auto found = tokens_.find(Sha256Hex(token));
  if (found == tokens_.end()) return std::nullopt;
  return found->second;
}

std::optional<KnownCaller> CallerList::OfCertificate(std::string_view name) const {
  const auto found = certificates_.find(name);
  if (found == certificates_.end()) return std::nullopt;
  return found->second;
}

std::vector<KnownCaller> CallerList::All() const {
  std::set<KnownCaller> callers;
  for (const auto& [digest, caller] : tokens_) callers.insert(caller);
  for (const auto& [name, caller] : certificates_) callers.insert(caller);
  return {callers.begin(), callers.end()};
}

void KnownCallers::Replace(CallerList list) {
  auto next = std::make_shared<const CallerList>(std::move(list));
  const std::lock_guard lock(mutex_);
  list_ = std::move(next);
}

std::shared_ptr<const CallerList> KnownCallers::Current() const {
  const std::lock_guard lock(mutex_);
  return list_;
}

std::optional<std::string> TokenOf(std::string_view authorization) {
  const std::size_t space = authorization.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const std::string_view scheme = authorization.substr(0, space);
  const std::string_view rest = authorization.substr(space + 1);
  if (IsWord(scheme, "bearer")) return std::string(rest);
  if (!IsWord(scheme, "basic")) return std::nullopt;
  const auto login = FromBase64(rest);
  const std::size_t colon = login.has_value() ? login->find(':') : std::string::npos;
  if (colon == std::string::npos) return std::nullopt;
  return login->substr(colon + 1);
}

}  // namespace meshwright

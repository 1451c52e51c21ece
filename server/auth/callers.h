#pragma once

#include <compare>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace meshwright {

// The rights of a caller. Each role has those of the roles before it.
enum class Role {
  kViewer,     // reads, and asks questions whose answers are not kept
  kSubmitter,  // keeps answers, runs searches, reports what jobs have achieved
  kOperator,   // runs jobs, imports and retracts measurements
  kAdmin       // looks after the server: backups
};

std::string_view Word(Role role);

// Somebody who has shown who they are.
struct KnownCaller {
  std::string name = {};
  Role role = Role::kViewer;
  auto operator<=>(const KnownCaller&) const = default;
};

// The callers that a server knows, by a file with one line for each: a name, a role, and either
// `sha256:` with the SHA-256 of a token in hexadecimal digits or `cert:` with a name in a client's
// certificate. Empty lines and lines that begin with # do not count.
class CallerList {
 public:
  // INVALID_ARGUMENT names each line that is wrong, a file that cannot be read or has no caller,
  // and a file that others than its owner may write.
  static absl::StatusOr<CallerList> Load(const std::string& path);
  // The same of the text of a file, which `path` names in errors.
  static absl::StatusOr<CallerList> Parse(std::string_view text, const std::string& path);

  [[nodiscard]] std::optional<KnownCaller> OfToken(std::string_view token) const;
  [[nodiscard]] std::optional<KnownCaller> OfCertificate(std::string_view name) const;

  // Returns each name with each of its roles once, sorted by both.
  [[nodiscard]] std::vector<KnownCaller> All() const;

 private:
  std::map<std::string, KnownCaller, std::less<>> tokens_;  // by the token's digest
  std::map<std::string, KnownCaller, std::less<>> certificates_;
};

// The list of a running server, which can be replaced. May be used from any thread.
class KnownCallers {
 public:
  explicit KnownCallers(CallerList list)
      : list_(std::make_shared<const CallerList>(std::move(list))) {}
  void Replace(CallerList list);
  [[nodiscard]] std::shared_ptr<const CallerList> Current() const;

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const CallerList> list_;
};

// Returns the token of "Bearer TOKEN", or the password of HTTP's "Basic", which browsers ask their
// user for; nullopt for anything else.
std::optional<std::string> TokenOf(std::string_view authorization);

}  // namespace meshwright

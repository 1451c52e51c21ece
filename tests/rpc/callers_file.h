#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "search_space/digest/sha256.h"
#include "server/auth/callers.h"

namespace meshwright {

// Returns callers with these roles. Each has its role as its name and the token "ROLE-token".
inline std::shared_ptr<const KnownCallers> CallersWithRoles(const std::vector<std::string>& roles) {
  std::string file;
  for (const std::string& role : roles) {
    file += role + " " + role + " sha256:" + Sha256Hex(role + "-token") + "\n";
  }
  auto callers = CallerList::Parse(file, "callers");
  EXPECT_TRUE(callers.ok()) << callers.status();
  return std::make_shared<const KnownCallers>(*std::move(callers));
}

}  // namespace meshwright

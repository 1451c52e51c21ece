#include "tests/launchers/fake_kubernetes.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <utility>

#include "server/process/spawn.h"
#include "tests/files/source_folder.h"

namespace meshwright {

FakeKubernetes::FakeKubernetes(const std::string& script, const std::string& folder) {
  const std::string path = folder + "/kubernetes.json";
  std::ofstream(path) << script;
  auto input = MakePipe();
  auto output = MakePipe();
  EXPECT_TRUE(input.ok() && output.ok()) << input.status() << output.status();
  const auto pid =
      Spawn({.arguments = {"python3", SourceFolder() / "tests/launchers/fake_kubernetes.py", path},
             .descriptors = {{STDIN_FILENO, input->read.number()},
                             {STDOUT_FILENO, output->write.number()}}});
  EXPECT_TRUE(pid.ok()) << pid.status();
  pid_ = *pid;
  input_ = std::move(input->write);
  output->write.Close();
  for (char c = 0; read(output->read.number(), &c, 1) == 1 && c != '\n';) url_ += c;
  EXPECT_NE(url_.find("://127.0.0.1:"), std::string::npos) << url_;
}

FakeKubernetes::~FakeKubernetes() {
  input_.Close();
  waitpid(pid_, nullptr, 0);
}

}  // namespace meshwright

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <algorithm>

#include "triaccel/base/error.h"
#include "triaccel/formats/safetensors.h"

namespace triaccel {
namespace {

namespace fs = std::filesystem;

/// TRIACCEL_PYTHON, else the project's own virtual environment, else what the path has.
std::string python(const fs::path& repository) {
  if (const char* given = std::getenv("TRIACCEL_PYTHON")) return given;
  const fs::path own = repository / ".venv/bin/python";
  return fs::exists(own) ? own.string() : "python3";
}

StateView tensor_of(ElementType type, std::vector<std::int64_t> shape) {
  std::int64_t bytes = size_of(type);
  for (const std::int64_t size : shape) bytes *= size;
  auto data = std::make_shared<std::vector<std::uint8_t>>(static_cast<std::size_t>(bytes));
  for (std::size_t i = 0; i < data->size(); ++i)
    (*data)[i] = static_cast<std::uint8_t>(type == ElementType::Bool ? i % 2 : 31 * i + 7);
  return {.name = text("layer.", name_of(type), ".", shape.size()),
          .type = type,
          .shape = std::move(shape),
          .bytes = std::as_bytes(std::span(*data)),
          .owner = data};
}

TEST(SafetensorsInPython, ComeBackAsTheyWere) {
  std::vector<StateView> tensors;
  for (int type = 0; type <= static_cast<int>(ElementType::F64); ++type)
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{}, {5}, {2, 0}, {3, 1, 2}})
      tensors.push_back(tensor_of(static_cast<ElementType>(type), shape));
  tensors.push_back(number_state<float>("größe \"quoted\"\n", {1, 2}));
  const std::map<std::string, std::string> metadata = {{"format", "triaccel"}, {"ключ", "\\"}};

  std::string name = (fs::temp_directory_path() / "triaccel-XXXXXX").string();
  const fs::path directory = ::mkdtemp(name.data());
  write_safetensors(directory / "ours", tensors, metadata);
  const fs::path here = fs::path(TRIACCEL_TESTS) / "formats";
  const std::string command =
      text("'", python(here.parent_path().parent_path()), "' '",
           (here / "safetensors_round_trip.py").string(), "' '", (directory / "ours").string(),
           "' '", (directory / "theirs").string(), "'");
  const int status = std::system(command.c_str());
  if (WIFEXITED(status) && (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127))
    GTEST_SKIP() << "no Python with safetensors; set TRIACCEL_PYTHON";
  ASSERT_EQ(status, 0) << command;

  const TensorFile theirs = read_safetensors(directory / "theirs");
  EXPECT_EQ(theirs.metadata, metadata);
  ASSERT_EQ(theirs.tensors.size(), tensors.size());
  for (const StateView& tensor : tensors) {
    const auto found =
        std::find_if(theirs.tensors.begin(), theirs.tensors.end(),
                     [&](const StateView& candidate) { return candidate.name == tensor.name; });
    ASSERT_NE(found, theirs.tensors.end()) << tensor.name;
    EXPECT_EQ(found->type, tensor.type) << tensor.name;
    EXPECT_EQ(found->shape, tensor.shape) << tensor.name;
    EXPECT_TRUE(std::equal(found->bytes.begin(), found->bytes.end(), tensor.bytes.begin(),
                           tensor.bytes.end()))
        << tensor.name;
  }
  fs::remove_all(directory);
}

}  // namespace
}  // namespace triaccel

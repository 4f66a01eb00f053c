// Answers from a SavedModel without Python, through the loader TensorFlow Serving uses.
// saved_model_reader SAVED_MODEL OP_LIBRARY... : texts on stdin, translations on stdout, each a line of hex digits.
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "tensorflow/c/c_api.h"
#include "tensorflow/cc/saved_model/loader.h"
#include "tensorflow/core/public/session.h"

int main(int argc, char** argv) {
  for (int i = 2; i < argc; ++i) {
    TF_Status* status = TF_NewStatus();
    TF_LoadLibrary(argv[i], status);
    if (TF_GetCode(status) != TF_OK) return std::cerr << TF_Message(status) << "\n", 2;
  }
  tensorflow::SavedModelBundle bundle;
  auto loaded = tensorflow::LoadSavedModel({}, {}, argv[1], {"serve"}, &bundle);
  if (!loaded.ok()) return std::cerr << loaded.ToString() << "\n", 3;
  std::vector<std::string> texts;
  for (std::string line; std::getline(std::cin, line);) {
    std::string text;
    for (size_t i = 0; i < line.size(); i += 2) text.push_back(std::stoi(line.substr(i, 2), nullptr, 16));
    texts.push_back(text);
  }
  tensorflow::Tensor input(tensorflow::DT_STRING, {static_cast<int64_t>(texts.size())});
  for (size_t i = 0; i < texts.size(); ++i) input.flat<tensorflow::tstring>()(i) = texts[i];
  const auto& signature = bundle.GetSignatures().at("serving_default");
  std::vector<tensorflow::Tensor> outputs;
  auto ran = bundle.session->Run({{signature.inputs().at("text").name(), input}},
                                 {signature.outputs().at("translation").name()}, {}, &outputs);
  if (!ran.ok()) return std::cerr << ran.ToString() << "\n", 4;
  for (size_t i = 0; i < texts.size(); ++i) {
    for (unsigned char byte : std::string(outputs[0].flat<tensorflow::tstring>()(i))) std::printf("%02x", byte);
    std::printf("\n");
  }
}

// Descriptors of given keypoints with an exported network (patchprint export MODEL --out net.onnx), in ONNX Runtime.
//   describe_onnxruntime net.onnx image.pgm < keypoints.txt
// Each line of keypoints.txt is a cv::KeyPoint: x y size angle. One line of numbers per keypoint comes out.
// OpenCV only cuts the patches, so any 4.x does; README.md in this folder says how to build.
#include <onnxruntime_cxx_api.h>

#include "patches.hpp"

int main(int argc, char** argv) {
    return runExample(argc, argv, [](const std::string& path, const std::vector<cv::Mat>& levels, const std::vector<cv::KeyPoint>& keypoints) {
        Ort::Env environment(ORT_LOGGING_LEVEL_WARNING, "patchprint");
        Ort::Session session(environment, path.c_str(), Ort::SessionOptions());
        Ort::AllocatorWithDefaultOptions allocator;
        const Ort::ModelMetadata metadata = session.GetModelMetadata();
        const auto number = [&](const char* name) {
            const auto text = metadata.LookupCustomMetadataMapAllocated(name, allocator);
            return storedNumber(path, name, text ? text.get() : "");
        };
        const double patchScale = number("patch_scale");
        const int side = static_cast<int>(number("input_size"));

        std::vector<float> pixels;  // (N, 1, side, side) in [0, 1]; the network normalizes further
        for (const cv::KeyPoint& k : keypoints) {
            cv::Mat patch;
            cutPatch(levels, k, patchScale, side).convertTo(patch, CV_32F, 1 / 255.0);
            pixels.insert(pixels.end(), patch.begin<float>(), patch.end<float>());
        }
        const std::vector<int64_t> shape = {static_cast<int64_t>(keypoints.size()), 1, side, side};
        const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
        const Ort::Value patches =
            Ort::Value::CreateTensor<float>(memory, pixels.data(), pixels.size(), shape.data(), shape.size());
        const char *input = "patches", *output = "descriptors";
        const auto results = session.Run(Ort::RunOptions(), &input, &patches, 1, &output, 1);
        const auto size = results[0].GetTensorTypeAndShapeInfo().GetShape();
        printRows(results[0].GetTensorData<float>(), size[0], size[1]);
    });
}

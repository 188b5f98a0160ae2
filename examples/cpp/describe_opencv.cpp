// Descriptors of given keypoints with an exported network (patchprint export MODEL --out net.onnx), in OpenCV alone.
//   describe_opencv net.onnx image.pgm < keypoints.txt
// Each line of keypoints.txt is a cv::KeyPoint: x y size angle. One line of numbers per keypoint comes out.
// OpenCV's dnn reads these networks from 4.10 on; README.md in this folder says how to build.
#include <iterator>
#include <opencv2/dnn.hpp>

#include "patches.hpp"

// cv::dnn does not show what a file says about itself, so it is looked up in the bytes: entries are name, then value.
std::string metadata(const std::string& path, const std::string& name) {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    const std::string entry = '\x0a' + std::string(1, static_cast<char>(name.size())) + name + '\x12';
    const size_t found = bytes.find(entry);
    if (found == std::string::npos) return "";
    const size_t start = found + entry.size();
    return bytes.substr(start + 1, static_cast<unsigned char>(bytes[start]));
}

int main(int argc, char** argv) {
    return runExample(argc, argv, [](const std::string& path, const std::vector<cv::Mat>& levels, const std::vector<cv::KeyPoint>& keypoints) {
        const double patchScale = storedNumber(path, "patch_scale", metadata(path, "patch_scale"));
        const int side = static_cast<int>(storedNumber(path, "input_size", metadata(path, "input_size")));
        std::vector<cv::Mat> patches;
        for (const cv::KeyPoint& k : keypoints) patches.push_back(cutPatch(levels, k, patchScale, side));
        cv::dnn::Net net = cv::dnn::readNetFromONNX(path);
        net.setInput(cv::dnn::blobFromImages(patches, 1 / 255.0));  // float in [0, 1]; the network normalizes further
        const cv::Mat descriptors = net.forward();
        printRows(descriptors.ptr<float>(), descriptors.rows, descriptors.cols);
    });
}

// Prints of given keypoints with an exported network (patchprint export MODEL --out net.onnx), OpenCV only.
//   g++ -std=c++17 -O2 describe.cpp -I/usr/include/opencv4 -lopencv_dnn -lopencv_imgproc -lopencv_core -o describe
//   describe net.onnx photo.pgm 12 32 < keypoints.txt      (patch scale and patch side of the model: patchprint models)
// Each line of keypoints.txt is a cv::KeyPoint: x y size angle. One line of numbers per keypoint comes out.
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <opencv2/dnn.hpp>
#include <opencv2/imgproc.hpp>

// A patch covers a square of side patchScale * sigma around the keypoint, turned by its angle; size is twice sigma.
cv::Mat cutPatch(const cv::Mat& image, const cv::KeyPoint& k, double patchScale, int side) {
    const double width = patchScale * k.size / 2, angle = k.angle * CV_PI / 180;
    const int finer = std::max(1, static_cast<int>(std::ceil(width / side)));  // oversample, then average: no aliasing
    const int samples = side * finer;
    const double step = width / samples, c = std::cos(angle) * step, s = std::sin(angle) * step, middle = (samples - 1) / 2.0;
    const cv::Matx23d toImage(c, -s, k.pt.x - (c - s) * middle, s, c, k.pt.y - (s + c) * middle);
    cv::Mat fine, patch;
    cv::warpAffine(image, fine, toImage, {samples, samples}, cv::INTER_LINEAR | cv::WARP_INVERSE_MAP, cv::BORDER_REPLICATE);
    cv::resize(fine, patch, {side, side}, 0, 0, cv::INTER_AREA);
    return patch;
}

int main(int argc, char** argv) {
    if (argc != 5) return std::fprintf(stderr, "usage: %s net.onnx photo.pgm patch_scale patch_side\n", argv[0]), 2;
    std::ifstream file(argv[2], std::ios::binary);
    std::string magic;
    int width = 0, height = 0, highest = 0;
    file >> magic >> width >> height >> highest;
    if (magic != "P5" || highest != 255) return std::fprintf(stderr, "%s is no 8-bit grey PGM\n", argv[2]), 2;
    file.get();
    cv::Mat image(height, width, CV_8U);  // with imgcodecs: cv::imread(argv[2], cv::IMREAD_GRAYSCALE)
    file.read(reinterpret_cast<char*>(image.data), image.total());

    std::vector<cv::Mat> patches;
    for (cv::KeyPoint k; std::cin >> k.pt.x >> k.pt.y >> k.size >> k.angle;)
        patches.push_back(cutPatch(image, k, std::atof(argv[3]), std::atoi(argv[4])));
    if (patches.empty()) return 0;
    cv::dnn::Net net = cv::dnn::readNetFromONNX(argv[1]);
    net.setInput(cv::dnn::blobFromImages(patches, 1 / 255.0));  // float in [0, 1]; the network normalises further
    const cv::Mat prints = net.forward();
    for (int i = 0; i < prints.rows; ++i, std::puts(""))
        for (int j = 0; j < prints.cols; ++j) std::printf("%.7g ", prints.at<float>(i, j));
}
